//go:build linux

package packets

import "time"

const (
	// PaceTurns is how many turns pass between two readings of the clock by a turnPace.
	// Reading it in each turn would need 2 % more instructions for a message. Arbitrary.
	PaceTurns = 8
	// maxShortTurn is the mean length of short turns. The shortest ACK timeouts in use are
	// some hundred times as long. Arbitrary.
	maxShortTurn = time.Millisecond
)

// A turnPace measures how long the turns of a shard's owner take. A turn is the time
// from one call of shard.drive() that has received requests to the next. It has all
// callbacks of the owner for these requests. While turns are short, acknowledgements are
// sent after the callbacks, and one acknowledgement covers several messages. While turns
// are long, or not known to be short, acknowledgements are sent before the callbacks, so
// that the peer does not wait for these. The zero value is ready to use.
type turnPace struct {
	turns  int
	read   time.Duration // time at which the clock was read last
	recent bool          // true if the turns between the last two readings were short
	// true if turns are short; a single long turn, in which the system has probably run
	// another thread, does not change this
	short bool
}

// next begins a turn. It reports whether the turns are short.
func (p *turnPace) next(clock func() time.Duration) (short bool) {
	if p.turns++; p.turns == PaceTurns {
		now := clock()
		recent := now-p.read < PaceTurns*maxShortTurn
		p.short = recent || p.recent
		p.turns, p.read, p.recent = 0, now, recent
	}
	return p.short
}
