package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// hangLimit is how long the program may run. If it runs longer, it hangs.
const hangLimit = 2 * time.Minute

// runProgramEnv makes the test binary the program. The program starts its exchanges with the
// same environment.
const runProgramEnv = "RDMALOOP_TEST_RUN_GATEWAY"

func TestMain(m *testing.M) {
	if os.Getenv(runProgramEnv) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// run runs the program and returns what it prints.
func run(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), hangLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Env = append(os.Environ(), runProgramEnv+"=1")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}

// TestFailover checks that every order is acknowledged, although the first exchange is
// killed, on both paths. A busy machine may let the exchanges wait for long, so on the wire
// path they may be silent for longer than by default.
func TestFailover(t *testing.T) {
	for _, path := range []string{"local", "wire"} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			stdout, stderr, err := run(t, "-orders", "500", "-path", path, "-peer-timeout", "1s")
			require.NoError(t, err, stderr)
			require.Contains(t, stdout, "the first exchange is killed\nthe connection has ended: ")
			require.Contains(t, stdout, "without an acknowledgement, then from ")
			require.Contains(t, stdout, "500 orders acknowledged")
			require.Contains(t, stdout, "p99.9")
			require.Regexp(t, `from an order to its arrival:\n  p50 +\d`, stdout)
			require.NotRegexp(t, `p50 +0\.00 µs`, stdout, "messages have times")
		})
	}
}

// TestBadArguments checks that wrong arguments give one line that names them.
func TestBadArguments(t *testing.T) {
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"nonsense"}, `gateway: unknown argument "nonsense"`},
		{[]string{"-orders", "0"}, "gateway: -orders 0: there is nothing to send"},
		{[]string{"-listen", "nowhere"}, "gateway: address nowhere: missing port in address"},
		{[]string{"-cpus", "x", "-exchanges", "127.0.0.1:1"}, `gateway: "x": must be a list such as 0,2-3`},
		{[]string{"-exchanges", "127.0.0.1:1"}, "no exchange is left: dial 127.0.0.1:1: "},
	} {
		_, stderr, err := run(t, test.args...)
		require.Error(t, err, test.args)
		require.Contains(t, stderr, test.want)
		require.Equal(t, 1, bytes.Count([]byte(stderr), []byte("\n")), stderr)
	}
}
