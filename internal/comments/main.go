// Command comments prints random comments of this module without their code. A comment
// that must be read twice should be written again.
//
//	go run ./internal/comments -seed 1
package main

import (
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
)

func main() {
	if err := run(os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "comments:", err)
		os.Exit(1)
	}
}

func run(args []string, out, messages io.Writer) error {
	flags := flag.NewFlagSet("comments", flag.ContinueOnError)
	flags.SetOutput(messages)
	seed := flags.Uint64("seed", 1, "seed of the choice: the same seed and tree give the same comments")
	count := flags.Int("n", 100, "number of comments")
	root := flags.String("root", ".", "directory of the module")
	if err := flags.Parse(args); err != nil {
		return err
	}
	all, err := find(os.DirFS(*root))
	if err != nil {
		return err
	}
	for i, c := range choose(all, *count, *seed) {
		fmt.Fprintf(out, "%3d. %s:%d, %s\n%s\n", i+1, c.file, c.line, c.about, c.text)
	}
	return nil
}

// choose returns random comments. If there are fewer than the parameter count, it returns
// all of them.
func choose(all []comment, count int, seed uint64) []comment {
	random := rand.New(rand.NewPCG(seed, 0))
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:min(max(count, 0), len(all))]
}
