package verbs

import "fmt"

// A transition is a change from one QP state to another, with the attributes of the
// change. The tables in ibv_modify_qp(3) and IBTA vol. 1, 11.2.5.2 list the transitions.
// If from and to are equal, the state stays, and only attributes change.
type transition struct {
	from, to QPState
	required QPAttrMask // attributes that must be in the mask, besides AttrState
	optional QPAttrMask // other attributes that may be in the mask
}

var rcTransitions = []transition{
	{StateReset, StateInit, AttrPort | AttrAccess, 0},
	{StateInit, StateInit, 0, AttrPort | AttrAccess},
	{StateInit, StateRTR,
		AttrAV | AttrPathMTU | AttrDestQPN | AttrRQPSN | AttrMaxDestRdAtomic | AttrMinRNRTimer,
		AttrAccess},
	{StateRTR, StateRTS,
		AttrSQPSN | AttrTimeout | AttrRetryCount | AttrRNRRetry | AttrMaxRdAtomic,
		AttrAccess | AttrMinRNRTimer},
	{StateRTS, StateRTS, 0, AttrAccess | AttrMinRNRTimer},
	{StateRTS, StateSQD, 0, 0},
	{StateSQD, StateRTS, 0, AttrAccess | AttrMinRNRTimer},
	{StateSQD, StateSQD, 0,
		AttrPort | AttrAV | AttrTimeout | AttrRetryCount | AttrRNRRetry | AttrMaxRdAtomic |
			AttrMaxDestRdAtomic | AttrAccess | AttrMinRNRTimer},
}

var udTransitions = []transition{
	{StateReset, StateInit, AttrPort | AttrQKey, 0},
	{StateInit, StateInit, 0, AttrPort | AttrQKey},
	{StateInit, StateRTR, 0, AttrQKey},
	{StateRTR, StateRTS, AttrSQPSN, AttrQKey},
	{StateRTS, StateRTS, 0, AttrQKey},
	{StateRTS, StateSQD, 0, 0},
	{StateSQD, StateRTS, 0, AttrQKey},
	{StateSQD, StateSQD, 0, AttrQKey},
	{StateSQE, StateRTS, 0, AttrQKey},
}

// transitions has the allowed transitions of each QP type.
var transitions = map[QPType][]transition{QPTypeRC: rcTransitions, QPTypeUD: udTransitions}

// A TransitionError reports that a QP can not go from one state to another with the given
// attributes. If Missing and Extra are zero, no attributes make this change of state
// possible. Every TransitionError matches ErrState. Source: ibv_modify_qp(3).
type TransitionError struct {
	Type     QPType
	From, To QPState
	// Missing has the attributes that the transition requires, but that are not in the
	// mask.
	Missing QPAttrMask
	// Extra has the attributes in the mask that the transition does not allow.
	Extra QPAttrMask
}

func (e *TransitionError) Error() string {
	switch {
	case e.Missing != 0 && e.Extra != 0:
		return fmt.Sprintf("%v QP from %v to %v: attributes %#x missing, %#x not allowed", e.Type, e.From, e.To, uint32(e.Missing), uint32(e.Extra))
	case e.Missing != 0:
		return fmt.Sprintf("%v QP from %v to %v: attributes %#x missing", e.Type, e.From, e.To, uint32(e.Missing))
	case e.Extra != 0:
		return fmt.Sprintf("%v QP from %v to %v: attributes %#x not allowed", e.Type, e.From, e.To, uint32(e.Extra))
	}
	return fmt.Sprintf("%v QP from %v to %v: no such transition", e.Type, e.From, e.To)
}

// Is reports whether target is ErrState.
func (e *TransitionError) Is(target error) bool { return target == ErrState }

// CheckTransition checks the arguments of QP.Modify. The parameters t and from are the
// type and the current state of the QP. The attr must not be nil.
//
// CheckTransition returns a *TransitionError if the transition does not exist, if the
// mask lacks a required attribute, or if the mask has an attribute that the transition
// does not allow. If the value of an attribute is out of range, the result is a
// *ParamError.
func CheckTransition(t QPType, from QPState, attr *QPAttr, mask QPAttrMask) error {
	to := from
	if mask&AttrState != 0 {
		to = attr.State
	}
	if err := checkStep(t, from, to, mask&^AttrState); err != nil {
		return err
	}
	return attr.check(mask)
}

func checkStep(t QPType, from, to QPState, mask QPAttrMask) error {
	// A QP can change from every state to RESET or ERROR, but without other attributes than
	// AttrState.
	if to == StateReset || to == StateError {
		if mask != 0 {
			return &TransitionError{Type: t, From: from, To: to, Extra: mask}
		}
		return nil
	}
	for _, step := range transitions[t] {
		if step.from != from || step.to != to {
			continue
		}
		missing, extra := step.required&^mask, mask&^(step.required|step.optional)
		if missing|extra != 0 {
			return &TransitionError{Type: t, From: from, To: to, Missing: missing, Extra: extra}
		}
		return nil
	}
	return &TransitionError{Type: t, From: from, To: to}
}

// check checks that the values of the attributes in the mask are in range.
func (a *QPAttr) check(mask QPAttrMask) error {
	for _, field := range []struct {
		bit          QPAttrMask
		name         string
		value, limit int64
	}{
		{AttrPathMTU, "path MTU code", int64(a.PathMTU), int64(MTU4096)},
		{AttrDestQPN, "destination QP number", int64(a.DestQPN), MaxQPNum},
		{AttrRQPSN, "receive PSN", int64(a.RQPSN), MaxPSN},
		{AttrSQPSN, "send PSN", int64(a.SQPSN), MaxPSN},
		{AttrMinRNRTimer, "minimum RNR timer code", int64(a.MinRNRTimer), MaxTimerCode},
		{AttrTimeout, "ACK timeout code", int64(a.Timeout), MaxTimerCode},
		{AttrRetryCount, "retry count", int64(a.RetryCount), MaxRetry},
		{AttrRNRRetry, "RNR retry count", int64(a.RNRRetry), MaxRetry},
	} {
		if mask&field.bit != 0 && field.value > field.limit {
			return &ParamError{Field: field.name, Value: field.value, Limit: field.limit}
		}
	}
	if mask&AttrAccess != 0 && a.Access&^AccessAll != 0 {
		return &ParamError{Field: "access", Value: int64(a.Access), Limit: int64(AccessAll), Reason: "unknown access right"}
	}
	if mask&AttrPathMTU != 0 && a.PathMTU.Bytes() == 0 {
		return &ParamError{Field: "path MTU code", Value: int64(a.PathMTU), Limit: int64(MTU4096), Reason: "no such code"}
	}
	return nil
}
