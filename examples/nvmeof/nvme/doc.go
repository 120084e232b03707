// Package nvme encodes and decodes the messages of NVMe over Fabrics on RDMA: command and
// response capsules, the private data of connections, and the data structures that a host
// reads from a controller.
//
// The package has no state and does no input or output. All integers of the protocol are
// in little-endian order. Offsets in comments are in bytes.
//
// The sources are the NVM Express Base Specification 2.0 (Base), the NVM Command Set
// Specification 1.0 (NVM) and the NVMe over RDMA Transport Specification 1.0 (RDMA).
package nvme
