package cq

// reservations counts the reserved places of a CQ. A place holds one completion.
type reservations struct {
	total    int // number of reserved places, including draining
	draining int // number of released places that may still be in use
}

// release begins to free n places. They become free at the next settle().
func (r *reservations) release(n int) {
	if n > 0 && n <= r.total-r.draining {
		r.draining += n
	}
}

// settle frees the released places. It is called when the CQ is empty.
func (r *reservations) settle() {
	r.total -= r.draining
	r.draining = 0
}
