//go:build linux

package hostile

import (
	"math/bits"
	"time"
)

// stepBits is how many bits of a time below the highest one echoTimes distinguishes.
const stepBits = 4

// echoTimes counts echoes by the time that they took. A time is rounded up by a sixteenth
// at most.
type echoTimes [64 << stepBits]uint32

func (e *echoTimes) add(took time.Duration) {
	n := uint64(max(took, 1<<stepBits))
	shift := bits.Len64(n) - 1 - stepBits
	e[shift<<stepBits+int(n>>shift)-1<<stepBits]++
}

// p999 returns the time that 99.9 % of the echoes did not exceed, or 0 without echoes.
func (e *echoTimes) p999() time.Duration {
	var all uint64
	for _, n := range e {
		all += uint64(n)
	}
	left := all / 1000 // number of echoes that may take longer
	for i := len(e) - 1; i >= 0; i-- {
		n := uint64(e[i])
		if n > left {
			shift, step := i>>stepBits, i&(1<<stepBits-1)
			return time.Duration(1<<stepBits+step+1)<<shift - 1
		}
		left -= n
	}
	return 0
}
