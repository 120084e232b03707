package wire_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/wire"
)

func TestDecodeMAD(t *testing.T) {
	m, err := wire.DecodeMAD(captured(t, vectorREQ).decoded(t).Payload())
	require.NoError(t, err)
	require.Equal(t, wire.AttrREQ, m.Attribute())
	require.Equal(t, uint64(0xa11223344), m.TID())
}

func TestDecodeMADRejects(t *testing.T) {
	good := captured(t, vectorREQ).decoded(t).Payload()
	for name, b := range map[string][]byte{
		"nothing":        nil,
		"too short":      good[:wire.MADSize-4],
		"too long":       append(slices.Clone(good), 0),
		"base version 2": append([]byte{2}, good[1:]...),
		"another class":  append([]byte{1, 3}, good[2:]...),
		"class version":  append([]byte{1, 7, 1}, good[3:]...),
		"another method": append([]byte{1, 7, 2, 0x81}, good[4:]...),
	} {
		_, err := wire.DecodeMAD(b)
		require.ErrorIs(t, err, wire.ErrMAD, name)
	}
}
