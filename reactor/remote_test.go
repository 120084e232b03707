package reactor_test

import (
	"encoding"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

var (
	_ encoding.BinaryAppender    = reactor.Remote{}
	_ encoding.BinaryUnmarshaler = (*reactor.Remote)(nil)
)

func TestRemote(t *testing.T) {
	r := reactor.Remote{Addr: 0x0102030405060708, RKey: 0x090a0b0c}
	b, err := r.AppendBinary([]byte{0})
	require.NoError(t, err)
	require.Equal(t, []byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, b)

	var got reactor.Remote
	require.NoError(t, got.UnmarshalBinary(append(b[1:], 0, 0)))
	require.Equal(t, r, got)
	require.ErrorIs(t, got.UnmarshalBinary(b[:reactor.RemoteSize-1]), verbs.ErrProtocol)
	require.Equal(t, r, got, "after an error the value is unchanged")
}
