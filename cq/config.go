package cq

import "github.com/rdmaloop/rdmaloop/verbs"

// Config is how a Group works. Nil, and the zero value, stand for the defaults.
type Config struct {
	// Vector is the completion vector of the channel and its CQs, from 0, less
	// than the device's NumCompVectors.
	Vector int
	// Progress says who moves the data: see verbs.Progress.
	Progress verbs.Progress
	// Batch is the most completions that one Queue.Poll returns, up to
	// MaxBatch. Zero means 64.
	Batch int
	// AckEvery is how many events of a CQ are gathered before they are given
	// back together. Zero means 64; 1 gives back each at once.
	AckEvery int
	// SolicitedOnly lets only failures, and receives whose sender asked for
	// it, end a sleep. Other completions wait until something else does, at
	// the latest the safety timeout.
	SolicitedOnly bool
}

// MaxBatch is the limit of Config.Batch.
const MaxBatch = 1 << 16

const (
	defaultBatch    = 64
	defaultAckEvery = 64
)

// resolve returns c with defaults in place of zeros, or a *verbs.ParamError.
func (c *Config) resolve(vectors int) (Config, error) {
	var r Config
	if c != nil {
		r = *c
	}
	if r.Batch == 0 {
		r.Batch = defaultBatch
	}
	if r.AckEvery == 0 {
		r.AckEvery = defaultAckEvery
	}
	return r, r.check(vectors)
}

func (c *Config) check(vectors int) error {
	switch {
	case c.Vector < 0:
		return negative("vector", c.Vector)
	case c.Vector >= vectors:
		return &verbs.ParamError{Field: "vector", Value: int64(c.Vector), Limit: int64(vectors - 1)}
	case c.Progress > verbs.ProgressManual:
		return &verbs.ParamError{Field: "progress", Value: int64(c.Progress), Limit: int64(verbs.ProgressManual)}
	case c.Batch < 0:
		return negative("batch", c.Batch)
	case c.Batch > MaxBatch:
		return &verbs.ParamError{Field: "batch", Value: int64(c.Batch), Limit: MaxBatch}
	case c.AckEvery < 0:
		return negative("ack every", c.AckEvery)
	}
	return nil
}

func negative(field string, value int) error {
	return &verbs.ParamError{Field: field, Value: int64(value), Reason: "negative"}
}
