// Command rdma serves the handler over RDMA.
package main

import (
	"log"

	"github.com/rdmaloop/rdmaloop/gnetrdma"

	"github.com/rdmaloop/rdmaloop/examples/gnet/shout"
)

func main() {
	log.Fatal(gnetrdma.Run(new(shout.Handler), "rdma://:7471"))
}
