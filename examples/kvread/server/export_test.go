package server

// Mapped returns the number of bytes in the newest mapping.
func (s *Store) Mapped() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int64(len(s.current.region.Bytes()))
}

// Mappings returns the number of mappings that are not closed.
func (s *Store) Mappings() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.maps
}
