package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRun checks that the program serves its counters, and ends when it shall.
func TestRun(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := ln.Addr().String()
	require.NoError(t, ln.Close())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- run(ctx, addr, 2) }()
	page := func(path, want string) bool {
		response, err := http.Get("http://" + addr + path)
		if err != nil {
			return false // not yet
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		return err == nil && response.StatusCode == http.StatusOK && strings.Contains(string(text), want)
	}
	for _, p := range [][2]string{{"/metrics", "rdmaloop_loop_messages_total"}, {"/debug/vars", `"messages":`}} {
		for !page(p[0], p[1]) {
			require.Empty(t, done, "the program has ended")
		}
	}
	cancel()
	require.NoError(t, <-done)
	require.ErrorContains(t, run(t.Context(), "no address", 1), "listen tcp")
}
