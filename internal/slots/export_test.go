package slots

// SetGeneration moves the slot of h on to gen, as many reuses would have, and
// returns the handle that its value has then.
func (t *Table[T]) SetGeneration(h Handle, gen uint32) Handle {
	i := int(uint32(h))
	t.slots[i].gen = gen
	return newHandle(i, gen)
}
