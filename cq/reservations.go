package cq

// reservations counts the reserved places of a CQ. A place holds one completion.
type reservations struct {
	total    int // number of reserved places, including the released ones
	draining int // number of released places that may still hold completions
}

// release begins to release n places. They become free when settle() is called.
func (r *reservations) release(n int) {
	if n > 0 && n <= r.total-r.draining {
		r.draining += n
	}
}

// settle is called when the CQ is empty. Places that were released before may then be
// reserved again, because no completion can occupy them.
func (r *reservations) settle() {
	r.total -= r.draining
	r.draining = 0
}
