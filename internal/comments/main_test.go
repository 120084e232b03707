package main

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

const sample = `// Package sample is a sample.
package sample

//go:generate true

// A T is a type.
type T struct {
	a int // is a field
	// b is another.
	b int
}

// f is a method.
func (t *T) f() {
	// A statement follows.
	_ = 1
}

const (
	// c is a constant.
	c = 1
)

// g is a function.
func g[A any](t G[A]) {}

// h is a method of a generic type.
func (t G[A]) h() {}

// The file ends here.
`

func TestFind(t *testing.T) {
	dir := fstest.MapFS{
		"a/sample.go":       {Data: []byte(sample)},
		"testdata/other.go": {Data: []byte("not Go")},
		".git/other.go":     {Data: []byte("not Go")},
		"a/page.md":         {Data: []byte("// no comment")},
	}
	all, err := find(dir)
	require.NoError(t, err)
	require.Equal(t, []comment{
		{"a/sample.go", 1, "package sample", "Package sample is a sample.\n"},
		{"a/sample.go", 6, "type T", "A T is a type.\n"},
		{"a/sample.go", 8, "field a of T", "is a field\n"},
		{"a/sample.go", 9, "field b of T", "b is another.\n"},
		{"a/sample.go", 13, "func f of T", "f is a method.\n"},
		{"a/sample.go", 15, "in func f of T", "A statement follows.\n"},
		{"a/sample.go", 20, "c", "c is a constant.\n"},
		{"a/sample.go", 24, "func g", "g is a function.\n"},
		{"a/sample.go", 27, "func h of G", "h is a method of a generic type.\n"},
		{"a/sample.go", 30, "in a file", "The file ends here.\n"},
	}, all)
}

func TestFindReportsInvalidGo(t *testing.T) {
	_, err := find(fstest.MapFS{"a.go": {Data: []byte("not Go")}})
	require.Error(t, err)
}

// TestSeeds checks that the seed decides which comments are chosen.
func TestSeeds(t *testing.T) {
	printed := func(args ...string) string {
		var out, messages strings.Builder
		require.NoError(t, run(append(args, "-root", "../.."), &out, &messages))
		return out.String()
	}
	first := printed("-seed", "1", "-n", "5")
	require.Equal(t, first, printed("-seed", "1", "-n", "5"))
	require.NotEqual(t, first, printed("-seed", "2", "-n", "5"))
	require.Contains(t, first, "\n  5. ")
	require.NotContains(t, first, "\n  6. ")
}
