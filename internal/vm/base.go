package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// A base is a directory with files from Debian packages. It has the kernel, and an
// archive of kernel modules, programs and their libraries.
type base string

func (b base) kernel() string  { return filepath.Join(string(b), "vmlinuz") }
func (b base) archive() string { return filepath.Join(string(b), "base.cpio") }

// prepareBase returns a base that has the package versions that apt would install now. If
// the cache does not have such a base, prepareBase makes it.
func prepareBase(ctx context.Context) (base, error) {
	selected, err := selectPackages(ctx)
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	cache = filepath.Join(cache, "rdmaloop", "vm")
	b := base(filepath.Join(cache, selected.key()))
	if _, err := os.Stat(string(b)); err == nil {
		return b, nil
	}
	// Delete bases for older versions of the packages.
	if err := os.RemoveAll(cache); err != nil {
		return "", err
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	return b, b.make(ctx, selected, cache)
}

// make makes the base in a temporary directory and renames it at the end. So a base in
// the cache is always complete.
func (b base) make(ctx context.Context, selected *selection, cache string) error {
	root, err := os.MkdirTemp(cache, "root-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(root)
	if err := selected.unpack(ctx, root); err != nil {
		return err
	}
	draft, err := os.MkdirTemp(cache, "base-")
	if err != nil {
		return err
	}
	if err := base(draft).fill(sysroot(root)); err != nil {
		return err
	}
	return os.Rename(draft, string(b))
}

func (b base) fill(root sysroot) error {
	kernels, err := filepath.Glob(filepath.Join(string(root), "boot", "vmlinuz-*"))
	if err != nil {
		return err
	}
	if len(kernels) != 1 {
		return fmt.Errorf("the packages contain %d kernels, want 1", len(kernels))
	}
	if err := os.Rename(kernels[0], b.kernel()); err != nil {
		return err
	}
	files := tree{}
	if err := root.addModules(files); err != nil {
		return err
	}
	if err := root.addPrograms(files); err != nil {
		return err
	}
	var archive bytes.Buffer
	if err := files.writeTo(&archive); err != nil {
		return err
	}
	return os.WriteFile(b.archive(), archive.Bytes(), 0o644)
}
