package nvme_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/examples/nvmeof/nvme"
)

// FuzzDecode checks that a value that UnmarshalBinary accepts is still the same after it
// was encoded and decoded.
func FuzzDecode(f *testing.F) {
	request, _ := (&nvme.QueueRequest{QID: 1, RecvSize: 128, SendSizeM1: 127}).AppendBinary(nil)
	connect, _ := (&nvme.ConnectData{Controller: 1, Subsystem: "nqn.a", Host: "nqn.b"}).AppendBinary(nil)
	response, _ := (&nvme.Response{Result: 1, Status: nvme.OutOfRange.Final()}).AppendBinary(nil)
	for _, b := range [][]byte{nil, request, connect, response} {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var r, again nvme.QueueRequest
		if r.UnmarshalBinary(b) == nil {
			encoded, err := r.AppendBinary(nil)
			require.NoError(t, err)
			require.NoError(t, again.UnmarshalBinary(encoded))
			require.Equal(t, r, again)
		}
		var d, sameData nvme.ConnectData
		if d.UnmarshalBinary(b) == nil {
			encoded, err := d.AppendBinary(nil)
			require.NoError(t, err)
			require.NoError(t, sameData.UnmarshalBinary(encoded))
			require.Equal(t, d, sameData)
		}
		var resp, same nvme.Response
		if resp.UnmarshalBinary(b) == nil {
			encoded, err := resp.AppendBinary(nil)
			require.NoError(t, err)
			require.NoError(t, same.UnmarshalBinary(encoded))
			require.Equal(t, resp, same)
		}
	})
}
