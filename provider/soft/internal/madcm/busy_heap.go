//go:build linux

package madcm

// A busySource is an element of a busyHeap.
type busySource[S any] interface {
	// busierThan reports whether this source is before another one in the heap.
	busierThan(other S) bool
	// heapIndex points to the index of this source in the heap.
	heapIndex() *int
}

// A busyHeap orders sources, the busiest first. It implements heap.Interface.
type busyHeap[S busySource[S]] []S

// Len implements heap.Interface.
func (h busyHeap[S]) Len() int { return len(h) }

// Less implements heap.Interface.
func (h busyHeap[S]) Less(i, j int) bool { return h[i].busierThan(h[j]) }

// Swap implements heap.Interface.
func (h busyHeap[S]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	*h[i].heapIndex(), *h[j].heapIndex() = i, j
}

// Push implements heap.Interface.
func (h *busyHeap[S]) Push(x any) {
	s := x.(S)
	*s.heapIndex() = len(*h)
	*h = append(*h, s)
}

// Pop implements heap.Interface.
func (h *busyHeap[S]) Pop() any {
	last := len(*h) - 1
	s := (*h)[last]
	(*h)[last] = *new(S)
	*h = (*h)[:last]
	return s
}
