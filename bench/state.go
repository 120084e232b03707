package main

import (
	"fmt"
	"math"
	"slices"
)

// The distance of the two processors in a measurement. The host of a virtual machine
// can move a virtual processor at any time.
const (
	stateUnknown = ""      // There is only one processor.
	stateNear    = "near"  // The cache line was below farLine before and after.
	stateFar     = "far"   // The cache line was at farLine or above before and after.
	stateMixed   = "mixed" // Near before and far after, or far before and near after.
)

const (
	// farLine is the round trip of a cache line, in nanoseconds, that divides near from
	// far. It lies in a gap: the measurements on virtual machines are 50 to 150 ns, or about
	// 500 ns and more.
	farLine = 250
	// enoughRounds is the number of rounds in one state from which a median is worth its
	// name. With fewer, the captions say so.
	enoughRounds = 3
)

// state returns the state that one measurement met.
func (r Row) state() string {
	switch before, after := r.CacheLineBefore, r.CacheLineAfter; {
	case before <= 0 || after <= 0:
		return stateUnknown
	case before < farLine && after < farLine:
		return stateNear
	case before >= farLine && after >= farLine:
		return stateFar
	}
	return stateMixed
}

// commonState returns the state of most measurements of a run, near if as many were far.
// It returns stateMixed only if all were mixed.
func commonState(measured []Row) string {
	counts := map[string]int{}
	for _, r := range measured {
		counts[r.state()]++
	}
	common := stateMixed
	for _, state := range []string{stateNear, stateFar, stateUnknown} {
		if counts[state] > 0 && (common == stateMixed || counts[state] > counts[common]) {
			common = state
		}
	}
	return common
}

// medianIn returns the median row of the rounds that met a state. If there are none, it
// returns the median of all rounds, whose State is stateMixed.
func medianIn(state string, rounds []Row) Row {
	same := slices.DeleteFunc(slices.Clone(rounds), func(r Row) bool { return r.state() != state })
	if len(same) == 0 {
		same, state = rounds, stateMixed
	}
	row := median(same)
	row.State, row.StateRounds = state, len(same)
	for _, r := range rounds {
		row.Rounds = append(row.Rounds, r.figure())
	}
	return row
}

// sameState separates the rows of the run's common state from the others. If all rows
// are mixed, it returns all as the first result.
func sameState(rows []Row) (same, others []Row) {
	for _, r := range rows {
		if r.State == stateMixed {
			others = append(others, r)
		} else {
			same = append(same, r)
		}
	}
	if len(same) == 0 {
		return others, nil
	}
	return same, others
}

// caption describes the rounds from which rows of one state come. It returns "" if the
// state is unknown.
func caption(rows []Row) string {
	if len(rows) == 0 || rows[0].State == stateUnknown {
		return ""
	}
	low, high := math.Inf(1), 0.
	fewest, most, rounds := math.MaxInt, 0, 0
	for _, r := range rows {
		low, high = min(low, r.CacheLineBefore, r.CacheLineAfter), max(high, r.CacheLineBefore, r.CacheLineAfter)
		fewest, most, rounds = min(fewest, r.StateRounds), max(most, r.StateRounds), max(rounds, len(r.Rounds))
	}
	distance := rows[0].State
	if distance == stateMixed {
		distance = "near and far in turn, so not comparable"
	}
	chosen := fmt.Sprintf("%d to %d", fewest, most)
	if fewest == most {
		chosen = fmt.Sprint(most)
	}
	return fmt.Sprintf("processors %s (a cache line and back: %.0f to %.0f ns), median of %s of %d rounds",
		distance, low, high, chosen, rounds)
}

// tooFew lists the rows that come from fewer than enoughRounds rounds in the common
// state. Others are the rows that have no such round.
func tooFew(same, others []Row) (names []string) {
	for _, r := range same {
		if r.State != stateUnknown && r.StateRounds < enoughRounds {
			names = append(names, fmt.Sprintf("%s %s (%d)", r.label(), r.title(), r.StateRounds))
		}
	}
	for _, r := range others {
		names = append(names, fmt.Sprintf("%s %s (0)", r.label(), r.title()))
	}
	return names
}
