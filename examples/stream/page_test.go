package stream_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPage checks that the code blocks of the page for users of package net are in the
// examples.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/from-net.md")
	require.NoError(t, err)
	files, err := filepath.Glob("example_*_test.go")
	require.NoError(t, err)
	var code strings.Builder
	for _, name := range files {
		source, err := os.ReadFile(name)
		require.NoError(t, err)
		code.WriteString(withoutIndent(string(source)))
	}
	blocks := strings.Split(string(page), "```go\n")[1:]
	require.Len(t, blocks, 5)
	for _, block := range blocks {
		block, _, _ = strings.Cut(block, "```")
		require.Contains(t, code.String(), withoutIndent(block))
	}
}

// withoutIndent removes the spaces at the beginning of each line.
func withoutIndent(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.TrimLeft(line, "\t "))
	}
	return b.String()
}
