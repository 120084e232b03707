package reactor_test

import (
	"flag"
	"testing"

	"github.com/rdmaloop/rdmaloop/internal/testutil/leak"
)

// killedProcessAddr, if it is set, makes the test binary run killedProcess instead of the
// tests: see kill_test.go.
var killedProcessAddr = flag.String("killed-process", "", "be a client of the server at this address")

func TestMain(m *testing.M) {
	flag.Parse()
	if *killedProcessAddr != "" {
		killedProcess(*killedProcessAddr)
		return
	}
	leak.Main(m)
}
