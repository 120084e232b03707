package gnetrdma

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestInput checks the bytes and the states of an input from the first bytes until the
// handler has read all.
func TestInput(t *testing.T) {
	var in input
	require.Equal(t, inputEmpty, in.state)
	in.keep()
	require.Equal(t, inputEmpty, in.state)

	buffer := []byte("0123")
	in.borrow(buffer)
	require.Equal(t, inputBorrowed, in.state)
	require.Equal(t, 4, in.len())
	in.remove(1)
	in.keep()
	require.Equal(t, inputOwned, in.state)
	copy(buffer, "xxxx")
	require.Equal(t, "123", string(in.bytes), "the bytes are still borrowed")

	memory := &in.memory[0]
	copy(in.grow(1), "4")
	require.Same(t, memory, &in.memory[0], "the bytes were moved, although there was room")
	copy(in.grow(100), "5")
	require.Equal(t, inputOwned, in.state)
	require.Equal(t, 104, in.len())
	require.Equal(t, "12345", string(in.bytes[:5]))
	in.remove(103)
	in.keep()
	require.Equal(t, inputOwned, in.state)
	in.remove(1)
	in.keep()
	require.Equal(t, input{}, in)
}

// TestInputReadAtOnce checks that borrowed bytes that the handler has read are not kept.
func TestInputReadAtOnce(t *testing.T) {
	var in input
	in.borrow([]byte("0123"))
	in.remove(4)
	in.keep()
	require.Equal(t, input{}, in)
}
