// Package target is an NVMe over Fabrics target on RDMA, for hosts such as Linux's own
// initiator nvme-rdma. A Target is the handler of a reactor.Engine.
//
// Each RDMA connection is one queue of commands (queue.go). A command goes through the
// states in command.go: its data is fetched from the host with READ, a worker reads or
// writes the disk, and data for the host goes to its memory with WRITE, followed by the
// response. The queues of one host form a controller (controller.go). The commands in
// fabrics.go and admin.go change the state of a controller.
//
// Everything of a queue happens on the loop of its connection. The disk is only used by
// the workers, because a loop that waits for a disk holds up its other connections. The
// state that several loops share is in Target and is protected by one mutex. Only
// commands that open, close or configure a controller use it.
package target
