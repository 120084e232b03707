package reactor_test

import (
	"flag"
	"testing"

	"github.com/rdmaloop/rdmaloop/internal/testutil/leak"
)

// killedProcessAddr is the server address for killedProcess. If it is set, the test
// binary only runs killedProcess.
var killedProcessAddr = flag.String("killed-process", "", "be a client of the server at this address")

func TestMain(m *testing.M) {
	flag.Parse()
	if *killedProcessAddr != "" {
		killedProcess(*killedProcessAddr)
		return
	}
	leak.Main(m)
}
