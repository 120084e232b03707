package pairtest_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/stream"
)

// envBytes is the environment variable with the number of bytes that each side sends in
// TestStreamDuplex.
const envBytes = "PAIR_BYTES"

// duplexBuffer is the size in bytes of the buffers of TestStreamDuplex.
const duplexBuffer = 16 << 10

// TestStreamDuplex sends random bytes on a stream in both directions at once, through
// small buffers. Each side checks the bytes of the other side. Another process runs the
// other side.
func TestStreamDuplex(t *testing.T) {
	side := newReactorSide(t)
	size, err := strconv.ParseInt(os.Getenv(envBytes), 10, 64)
	require.NoError(t, err)
	p := openFromEnv(t, side.addr)
	network, err := stream.New(p, &stream.NetworkConfig{Buffers: stream.Buffers{Receive: duplexBuffer, Send: duplexBuffer}, CloseTimeout: hangTimeout})
	require.NoError(t, err)
	c := side.openStream(network)
	sent := make(chan error, 1)
	go func() {
		_, err := io.Copy(c, randomBytes(side.passive, size))
		if err == nil {
			err = c.(*stream.Conn).CloseWrite()
		}
		sent <- err
	}()
	require.NoError(t, sameBytes(c, randomBytes(!side.passive, size)))
	require.NoError(t, <-sent)
	require.NoError(t, c.Close())
	require.NoError(t, network.Close())
	require.NoError(t, p.Close())
}

// openStream opens the stream between the two sides.
func (s *reactorSide) openStream(network *stream.Network) net.Conn {
	if !s.passive {
		c, err := network.Dial("tcp", s.addr.String())
		require.NoError(s.t, err)
		return c
	}
	ln, err := network.Listen("tcp", s.addr.String())
	require.NoError(s.t, err)
	os.Stdout.WriteString("listening on " + s.addr.String() + "\n")
	c, err := ln.Accept()
	require.NoError(s.t, err)
	return c
}

// randomBytes returns a reader of the bytes that one side sends.
func randomBytes(passive bool, size int64) io.Reader {
	seed := [32]byte{}
	if passive {
		seed[0] = 1
	}
	return io.LimitReader(rand.NewChaCha8(seed), size)
}

// sameBytes reads r to its end, and checks that it has the bytes of want.
func sameBytes(r, want io.Reader) error {
	got, expected := make([]byte, 32<<10), make([]byte, 32<<10)
	for at := 0; ; {
		n, err := r.Read(got)
		if _, err := io.ReadFull(want, expected[:n]); err != nil {
			return fmt.Errorf("more than %d bytes: %w", at, err)
		}
		if string(got[:n]) != string(expected[:n]) {
			return fmt.Errorf("wrong bytes after %d bytes", at)
		}
		at += n
		if err == io.EOF {
			if n, _ := want.Read(expected); n > 0 {
				return fmt.Errorf("the stream has ended after %d bytes", at)
			}
			return nil
		}
		if err != nil {
			return err
		}
	}
}
