// Command tcp serves the handler over TCP.
package main

import (
	"log"

	"github.com/panjf2000/gnet/v2"

	"github.com/rdmaloop/rdmaloop/examples/gnet/shout"
)

func main() {
	log.Fatal(gnet.Run(new(shout.Handler), "tcp://:7471"))
}
