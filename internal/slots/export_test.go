package slots

// SetGeneration sets the generation of the slot of h. It returns the new handle of the
// value.
func (t *Table[T]) SetGeneration(h Handle, gen uint32) Handle {
	i := int(uint32(h))
	t.slots[i].gen = gen
	return newHandle(i, gen)
}
