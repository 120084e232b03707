package verbs_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// states has all states of a QP, and one number that is not a state.
var states = []verbs.QPState{
	verbs.StateReset, verbs.StateInit, verbs.StateRTR, verbs.StateRTS,
	verbs.StateSQD, verbs.StateSQE, verbs.StateError, verbs.StateError + 1,
}

// attributes has all attributes except AttrState.
var attributes = []verbs.QPAttrMask{
	verbs.AttrAccess, verbs.AttrPort, verbs.AttrQKey, verbs.AttrAV, verbs.AttrPathMTU,
	verbs.AttrTimeout, verbs.AttrRetryCount, verbs.AttrRNRRetry, verbs.AttrRQPSN,
	verbs.AttrMaxRdAtomic, verbs.AttrMinRNRTimer, verbs.AttrSQPSN, verbs.AttrMaxDestRdAtomic,
	verbs.AttrDestQPN,
}

// A rule has the attributes of one transition. The value 'r' means that the attribute is
// required, and 'o' means that it is optional. All other attributes are forbidden.
type rule map[verbs.QPAttrMask]rune

type step struct{ from, to verbs.QPState }

// rcRules returns the transitions of RC queue pairs according to ibv_modify_qp(3) and
// IBTA vol. 1, 11.2.5.2.
func rcRules() map[step]rule {
	return map[step]rule{
		{verbs.StateReset, verbs.StateInit}: {verbs.AttrPort: 'r', verbs.AttrAccess: 'r'},
		{verbs.StateInit, verbs.StateInit}:  {verbs.AttrPort: 'o', verbs.AttrAccess: 'o'},
		{verbs.StateInit, verbs.StateRTR}: {
			verbs.AttrAV: 'r', verbs.AttrPathMTU: 'r', verbs.AttrDestQPN: 'r', verbs.AttrRQPSN: 'r',
			verbs.AttrMaxDestRdAtomic: 'r', verbs.AttrMinRNRTimer: 'r', verbs.AttrAccess: 'o',
		},
		{verbs.StateRTR, verbs.StateRTS}: {
			verbs.AttrSQPSN: 'r', verbs.AttrMaxRdAtomic: 'r', verbs.AttrRetryCount: 'r',
			verbs.AttrRNRRetry: 'r', verbs.AttrTimeout: 'r', verbs.AttrAccess: 'o', verbs.AttrMinRNRTimer: 'o',
		},
		{verbs.StateRTS, verbs.StateRTS}: {verbs.AttrAccess: 'o', verbs.AttrMinRNRTimer: 'o'},
		{verbs.StateRTS, verbs.StateSQD}: {},
		{verbs.StateSQD, verbs.StateRTS}: {verbs.AttrAccess: 'o', verbs.AttrMinRNRTimer: 'o'},
		{verbs.StateSQD, verbs.StateSQD}: {
			verbs.AttrPort: 'o',
			verbs.AttrAV:   'o', verbs.AttrTimeout: 'o', verbs.AttrRetryCount: 'o', verbs.AttrRNRRetry: 'o',
			verbs.AttrMaxRdAtomic: 'o', verbs.AttrMaxDestRdAtomic: 'o', verbs.AttrAccess: 'o',
			verbs.AttrMinRNRTimer: 'o',
		},
	}
}

func udRules() map[step]rule {
	qkey := rule{verbs.AttrQKey: 'o'}
	return map[step]rule{
		{verbs.StateReset, verbs.StateInit}: {verbs.AttrPort: 'r', verbs.AttrQKey: 'r'},
		{verbs.StateInit, verbs.StateInit}:  {verbs.AttrPort: 'o', verbs.AttrQKey: 'o'},
		{verbs.StateInit, verbs.StateRTR}:   qkey,
		{verbs.StateRTR, verbs.StateRTS}:    {verbs.AttrSQPSN: 'r', verbs.AttrQKey: 'o'},
		{verbs.StateRTS, verbs.StateRTS}:    qkey,
		{verbs.StateRTS, verbs.StateSQD}:    {},
		{verbs.StateSQD, verbs.StateRTS}:    qkey,
		{verbs.StateSQD, verbs.StateSQD}:    qkey,
		{verbs.StateSQE, verbs.StateRTS}:    qkey,
	}
}

// expectation returns the rule of the transition between two states. If the transition
// does not exist, the second result is false.
func expectation(rules map[step]rule, from, to verbs.QPState) (rule, bool) {
	if to == verbs.StateReset || to == verbs.StateError {
		return rule{}, true
	}
	r, ok := rules[step{from, to}]
	return r, ok
}

func (r rule) required() (mask verbs.QPAttrMask) {
	for bit, kind := range r {
		if kind == 'r' {
			mask |= bit
		}
	}
	return mask
}

// validAttr returns attributes whose values are all in range.
func validAttr(to verbs.QPState) *verbs.QPAttr {
	return &verbs.QPAttr{State: to, Port: 1, PathMTU: verbs.MTU1024}
}

func TestCheckTransitionIsTheManualPagesTable(t *testing.T) {
	for qpType, rules := range map[verbs.QPType]map[step]rule{
		verbs.QPTypeRC: rcRules(),
		verbs.QPTypeUD: udRules(),
	} {
		for _, from := range states {
			for _, to := range states {
				t.Run(fmt.Sprintf("%v/%v/%v", qpType, from, to), func(t *testing.T) {
					checkStep(t, qpType, from, to, rules)
				})
			}
		}
	}
}

// checkStep checks CheckTransition for one transition with different masks: with the
// required attributes, without each required attribute, and with each other attribute in
// addition.
func checkStep(t *testing.T, qpType verbs.QPType, from, to verbs.QPState, rules map[step]rule) {
	want, exists := expectation(rules, from, to)
	required := want.required()
	err := verbs.CheckTransition(qpType, from, validAttr(to), verbs.AttrState|required)
	if !exists {
		require.Equal(t, &verbs.TransitionError{Type: qpType, From: from, To: to}, err)
		return
	}
	require.NoError(t, err)
	for _, bit := range attributes {
		var mask verbs.QPAttrMask
		wrong := verbs.TransitionError{Type: qpType, From: from, To: to}
		switch want[bit] {
		case 'r':
			mask, wrong.Missing = required&^bit, bit
		case 'o':
			mask = required | bit
		default:
			mask, wrong.Extra = required|bit, bit
		}
		err := verbs.CheckTransition(qpType, from, validAttr(to), verbs.AttrState|mask)
		if want[bit] == 'o' {
			require.NoError(t, err, "%#x", uint32(bit))
			continue
		}
		require.Equal(t, &wrong, err, "%#x", uint32(bit))
	}
}

func TestCheckTransitionWithoutStateStays(t *testing.T) {
	attr := &verbs.QPAttr{State: verbs.StateError, MinRNRTimer: 12}
	require.NoError(t, verbs.CheckTransition(verbs.QPTypeRC, verbs.StateRTS, attr, verbs.AttrMinRNRTimer))
	err := verbs.CheckTransition(verbs.QPTypeRC, verbs.StateRTR, attr, verbs.AttrMinRNRTimer)
	require.Equal(t, &verbs.TransitionError{Type: verbs.QPTypeRC, From: verbs.StateRTR, To: verbs.StateRTR}, err)
}

func TestCheckTransitionNamesBothMistakes(t *testing.T) {
	attr := validAttr(verbs.StateInit)
	err := verbs.CheckTransition(verbs.QPTypeRC, verbs.StateReset, attr, verbs.AttrState|verbs.AttrPort|verbs.AttrQKey)
	require.Equal(t, &verbs.TransitionError{
		Type: verbs.QPTypeRC, From: verbs.StateReset, To: verbs.StateInit,
		Missing: verbs.AttrAccess, Extra: verbs.AttrQKey,
	}, err)
}

func TestCheckTransitionChecksValues(t *testing.T) {
	const (
		toRTR = verbs.AttrAV | verbs.AttrPathMTU | verbs.AttrDestQPN | verbs.AttrRQPSN |
			verbs.AttrMaxDestRdAtomic | verbs.AttrMinRNRTimer
		toRTS = verbs.AttrSQPSN | verbs.AttrTimeout | verbs.AttrRetryCount | verbs.AttrRNRRetry |
			verbs.AttrMaxRdAtomic
	)
	for _, c := range []struct {
		field string
		from  verbs.QPState
		mask  verbs.QPAttrMask
		set   func(a *verbs.QPAttr, over uint32)
		limit uint32
	}{
		{"path MTU code", verbs.StateInit, toRTR, func(a *verbs.QPAttr, over uint32) { a.PathMTU = verbs.MTU(5 + over) }, 5},
		{"destination QP number", verbs.StateInit, toRTR, func(a *verbs.QPAttr, over uint32) { a.DestQPN = 0xffffff + over }, 0xffffff},
		{"receive PSN", verbs.StateInit, toRTR, func(a *verbs.QPAttr, over uint32) { a.RQPSN = 0xffffff + over }, 0xffffff},
		{"minimum RNR timer code", verbs.StateInit, toRTR, func(a *verbs.QPAttr, over uint32) { a.MinRNRTimer = uint8(31 + over) }, 31},
		{"send PSN", verbs.StateRTR, toRTS, func(a *verbs.QPAttr, over uint32) { a.SQPSN = 0xffffff + over }, 0xffffff},
		{"ACK timeout code", verbs.StateRTR, toRTS, func(a *verbs.QPAttr, over uint32) { a.Timeout = uint8(31 + over) }, 31},
		{"retry count", verbs.StateRTR, toRTS, func(a *verbs.QPAttr, over uint32) { a.RetryCount = uint8(7 + over) }, 7},
		{"RNR retry count", verbs.StateRTR, toRTS, func(a *verbs.QPAttr, over uint32) { a.RNRRetry = uint8(7 + over) }, 7},
	} {
		t.Run(c.field, func(t *testing.T) {
			attr := validAttr(c.from + 1)
			c.set(attr, 0)
			require.NoError(t, verbs.CheckTransition(verbs.QPTypeRC, c.from, attr, verbs.AttrState|c.mask))
			c.set(attr, 1)
			err := verbs.CheckTransition(verbs.QPTypeRC, c.from, attr, verbs.AttrState|c.mask)
			require.Equal(t, &verbs.ParamError{Field: c.field, Value: int64(c.limit) + 1, Limit: int64(c.limit)}, err)
		})
	}
}

func TestCheckTransitionRefusesMTUZero(t *testing.T) {
	attr := validAttr(verbs.StateRTR)
	attr.PathMTU = 0
	err := verbs.CheckTransition(verbs.QPTypeRC, verbs.StateInit, attr, verbs.AttrState|rcRules()[step{verbs.StateInit, verbs.StateRTR}].required())
	var param *verbs.ParamError
	require.ErrorAs(t, err, &param)
	require.Equal(t, "path MTU code", param.Field)
}

// TestCheckTransitionIgnoresUnnamedValues checks that CheckTransition ignores the values
// of attributes that are not in the mask.
func TestCheckTransitionIgnoresUnnamedValues(t *testing.T) {
	attr := &verbs.QPAttr{PathMTU: 99, DestQPN: 1 << 31, RetryCount: 200, MinRNRTimer: 12}
	require.NoError(t, verbs.CheckTransition(verbs.QPTypeRC, verbs.StateRTS, attr, verbs.AttrMinRNRTimer))
}
