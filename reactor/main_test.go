package reactor_test

import (
	"flag"
	"testing"

	"github.com/rdmaloop/rdmaloop/internal/leak"
)

// victimAddr makes the test binary a peer to be killed: see kill_test.go.
var killedProcessAddr = flag.String("victim", "", "be a client of the server at this address")

func TestMain(m *testing.M) {
	flag.Parse()
	if *killedProcessAddr != "" {
		killedProcess(*killedProcessAddr)
		return
	}
	leak.Main(m)
}
