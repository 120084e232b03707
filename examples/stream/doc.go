// Package stream has examples for package stream of this library: programs for package
// net that use RDMA after a change of their dialer and their listener.
//
//	example_http_test.go   net/http
//	example_tls_test.go    crypto/tls
//	example_grpc_test.go   gRPC, with unary and streaming calls
//	example_redis_test.go  a Redis client and a server that speaks its protocol
//
// They are a module of their own, so that the library does not depend on the modules that
// they need.
package stream
