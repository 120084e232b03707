// Package gnet is an example of package gnetrdma: one handler of gnet, and two programs
// that serve it. The package shout has the handler. The programs tcp and rdma differ in
// three lines.
package gnet
