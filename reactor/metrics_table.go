package reactor

import (
	"iter"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// A Stat is one counter of Stats, for a program that lists or exports all of them.
type Stat struct {
	// Name is the field's name in lower case, such as "empty_polls". For an element of
	// Wakes, the name ends with the WakeCause, such as "wakes_post". For an element of
	// Batches, it ends with the smallest number of completions, such as "batches_16".
	Name  string
	Help  string // what the counter counts
	Unit  string // "bytes", "nanoseconds", or "" for a number
	Gauge bool   // true if Value may decrease, as the number of open connections does
	Value uint64
}

// All returns the counters in the order of the fields of Stats.
func (s *Stats) All() iter.Seq[Stat] {
	return func(yield func(Stat) bool) {
		for _, c := range s.counters() {
			if !yield(c.stat()) {
				return
			}
		}
	}
}

// Add adds the counters of o to s. A counter with the tag kind:"max" becomes the greater
// of the two values.
func (s *Stats) Add(o *Stats) {
	others := o.counters()
	for i, c := range s.counters() {
		if other := others[i].value(); c.field.Tag.Get("kind") == "max" {
			c.set(max(c.value(), other))
		} else {
			c.set(c.value() + other)
		}
	}
}

// A statCounter refers to a field of Stats, or to an element of an array field.
type statCounter struct {
	field   reflect.StructField
	index   int // index in the array; 0 if the field is no array
	content reflect.Value
}

// counters returns all counters of s, in the order of the fields. It uses reflection, so
// new fields need not be listed.
func (s *Stats) counters() (all []statCounter) {
	fields := reflect.ValueOf(s).Elem()
	for i := range fields.NumField() {
		field, content := fields.Type().Field(i), fields.Field(i)
		if field.Type.Kind() != reflect.Array {
			all = append(all, statCounter{field: field, content: content})
			continue
		}
		for k := range content.Len() {
			all = append(all, statCounter{field, k, content.Index(k)})
		}
	}
	return all
}

func (c *statCounter) isDuration() bool { return c.content.Type() == reflect.TypeFor[time.Duration]() }

// value returns the value of the counter. A duration is in nanoseconds.
func (c *statCounter) value() uint64 {
	if c.isDuration() {
		return uint64(c.content.Int())
	}
	return c.content.Uint()
}

// set sets the value of the counter.
func (c *statCounter) set(n uint64) {
	if c.isDuration() {
		c.content.SetInt(int64(n))
	} else {
		c.content.SetUint(n)
	}
}

// stat returns the description of the counter with its value.
func (c *statCounter) stat() Stat {
	tag := c.field.Tag
	s := Stat{
		Name: snakeCase(c.field.Name), Help: tag.Get("help"), Unit: tag.Get("unit"),
		Gauge: tag.Get("kind") == "gauge", Value: c.value(),
	}
	if c.isDuration() {
		s.Unit = "nanoseconds"
	}
	switch tag.Get("index") {
	case "cause":
		s.Name += "_" + WakeCause(c.index).String()
	case "power":
		s.Name += "_" + strconv.Itoa(1<<c.index)
	}
	return s
}

// snakeCase returns a field's name in lower case with "_" between its words: EmptyPolls
// becomes empty_polls, and RNRErrors rnr_errors.
func snakeCase(name string) string {
	var b strings.Builder
	for i := range len(name) {
		begins := i > 0 && unicode.IsUpper(rune(name[i])) &&
			(unicode.IsLower(rune(name[i-1])) || i+2 < len(name) && unicode.IsLower(rune(name[i+1])))
		if begins {
			b.WriteByte('_')
		}
		b.WriteByte(name[i])
	}
	return strings.ToLower(b.String())
}
