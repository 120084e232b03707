package cq

import "github.com/rdmaloop/rdmaloop/verbs"

// Config has the settings of a Group. Nil and the zero value mean the defaults. NewGroup
// returns a *verbs.ParamError if a field is negative or too large.
type Config struct {
	// Vector is the completion vector of the channel and its CQs. It is from 0 to
	// NumCompVectors-1 of verbs.DeviceAttr.
	Vector int
	// Progress says who moves the data: the device itself, or the owner of the CQs. See
	// verbs.Progress.
	Progress verbs.Progress
	// Batch is the largest number of completions that one Queue.Poll returns, from 1 to
	// MaxBatch. Zero means 64.
	Batch int
	// Inline asks for small received messages together with their completions; see
	// Queue.InlineData. Not every device can do that; see verbs.Caps.RecvModes.
	Inline bool
	// AckEvery is how many events of a CQ are acknowledged with one call. Zero means 64,
	// and 1 means that each event is acknowledged at once. There is no upper limit.
	AckEvery int
	// SolicitedOnly means that only two kinds of completions end a sleep: failures, and
	// receives of messages with the flag verbs.SendSolicited. Other completions wait, at
	// most until the safety timeout.
	SolicitedOnly bool
}

// MaxBatch is the largest Config.Batch. The number is arbitrary.
const MaxBatch = 1 << 16

// Defaults of Config. No measurement led to these numbers.
const (
	defaultBatch    = 64
	defaultAckEvery = 64
)

// resolve replaces zeros in a copy of c by the defaults. The error is a
// *verbs.ParamError if a field is out of range.
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
