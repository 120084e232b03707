package slots

// SetGeneration sets the generation of the slot of h, and returns the new handle of the
// value in the slot.
func (t *Table[T]) SetGeneration(h Handle, gen uint32) Handle {
	i := int(uint32(h))
	t.slots[i].gen = gen
	return newHandle(i, gen)
}
