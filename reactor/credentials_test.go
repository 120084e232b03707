//go:build linux

package reactor_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/reactor"
)

// TestCredentials checks that each side of a local connection has its peer's
// credentials, even after the close.
func TestCredentials(t *testing.T) {
	want := cm.Credentials{PID: int32(os.Getpid()), UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
	check := func(who interface {
		Credentials() (cm.Credentials, bool)
	}) {
		c, known := who.Credentials()
		assert.True(t, known)
		assert.Equal(t, want, c)
	}
	closed := make(chan struct{})
	server := start(t, &hooks{
		request: func(req *reactor.ConnRequest) {
			check(req)
			assert.NoError(t, req.Accept(nil))
		},
		open: func(c *reactor.Conn) { check(c) },
		close: func(c *reactor.Conn, _ error) {
			check(c)
			close(closed)
		},
	}, nil)
	opened, _ := dialFor(t, server, nil)
	c := receive(t, opened)
	require.NoError(t, c.Loop().Post(func() {
		check(c)
		c.Close()
	}))
	<-closed
}
