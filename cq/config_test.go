package cq_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cq"
	"github.com/rdmaloop/rdmaloop/internal/testutil/faultcq"
	"github.com/rdmaloop/rdmaloop/verbs"
)

func TestConfigRange(t *testing.T) {
	for _, c := range []struct {
		cfg          cq.Config
		field        string
		value, limit int64
	}{
		{cq.Config{Vector: -1}, "vector", -1, 0},
		{cq.Config{Vector: 4}, "vector", 4, 3},
		{cq.Config{Progress: 2}, "progress", 2, 1},
		{cq.Config{Batch: -1}, "batch", -1, 0},
		{cq.Config{Batch: cq.MaxBatch + 1}, "batch", cq.MaxBatch + 1, cq.MaxBatch},
		{cq.Config{AckEvery: -1}, "ack every", -1, 0},
	} {
		dev := faultcq.New(&faultcq.Script{Vectors: 4})
		_, err := cq.NewGroup(dev, &c.cfg)
		requireParam(t, err, c.field, c.value, c.limit)
		require.Zero(t, dev.Open())
	}
}

func TestConfigLimitsAreAllowed(t *testing.T) {
	cfg := &cq.Config{Vector: 3, Progress: verbs.ProgressManual, Batch: cq.MaxBatch, AckEvery: 1}
	before := *cfg
	g, _ := newGroup(t, &faultcq.Script{Vectors: 4}, cfg)
	require.NoError(t, g.Close())
	require.Equal(t, before, *cfg)
}

func TestConfigDefaults(t *testing.T) {
	g, _ := newGroup(t, nil, nil)
	q, c := newQueue(t, g, 100)
	complete(c, make([]uint64, 100)...)
	require.Len(t, pollIDs(t, q), 64)
	require.Len(t, pollIDs(t, q), 36)
}
