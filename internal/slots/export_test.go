package slots

// SetGeneration changes the generation of the slot of h and returns the value's new
// handle.
func (t *Table[T]) SetGeneration(h Handle, gen uint32) Handle {
	i := int(uint32(h))
	t.slots[i].gen = gen
	return newHandle(i, gen)
}
