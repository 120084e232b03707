package reactor_test

import (
	"flag"
	"testing"

	"github.com/rdmaloop/rdmaloop/internal/leak"
)

// victimAddr makes the test binary a peer to be killed: see kill_test.go.
var victimAddr = flag.String("victim", "", "be a client of the server at this address")

func TestMain(m *testing.M) {
	flag.Parse()
	if *victimAddr != "" {
		victim(*victimAddr)
		return
	}
	leak.Main(m)
}
