package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// kernelPackage is there for what it depends on: the present kernel.
const kernelPackage = "linux-image-amd64"

// programPackages have the programs of others that run in the guest.
var programPackages = []string{
	"busybox-static", "iproute2", "ibverbs-providers", "ibverbs-utils", "perftest", "rdmacm-utils", "util-linux",
}

// A selection is the packages that a guest is made of.
type selection struct {
	packages []string
	files    string // address, size and checksum of each
}

// selectPackages chooses the packages, as the system's lists have them.
func selectPackages(ctx context.Context) (*selection, error) {
	s, err := readLists(ctx)
	if err == nil || os.Geteuid() != 0 {
		return s, err
	}
	// A fresh machine has no lists yet.
	if err := command(ctx, "", "apt-get", "update", "-q"); err != nil {
		return nil, err
	}
	return readLists(ctx)
}

func readLists(ctx context.Context) (*selection, error) {
	kernel, err := depends(ctx, kernelPackage)
	if err != nil {
		return nil, err
	}
	programs, err := depends(ctx, append([]string{"--recurse"}, programPackages...)...)
	if err != nil {
		return nil, err
	}
	s := &selection{packages: append(packagesNamed(programs), dependencyNamed(kernel))}
	s.files, err = output(ctx, "", "apt-get", append([]string{"download", "--print-uris"}, s.packages...)...)
	return s, err
}

func depends(ctx context.Context, args ...string) (string, error) {
	return output(ctx, "", "apt-cache", append([]string{"depends", "--important"}, args...)...)
}

// packagesNamed returns the packages that the output of apt-cache depends is
// about. Below each of them, indented, are those it names; in <> are those that
// do not exist but are provided by others.
func packagesNamed(listing string) (packages []string) {
	for line := range strings.Lines(listing) {
		if name := strings.TrimRight(line, "\n"); !strings.HasPrefix(name, " ") && !strings.HasPrefix(name, "<") {
			packages = append(packages, name)
		}
	}
	return packages
}

// dependencyNamed returns the first dependency in the output of apt-cache depends.
func dependencyNamed(listing string) string {
	_, rest, _ := strings.Cut(listing, "Depends: ")
	name, _, _ := strings.Cut(rest, "\n")
	return name
}

// key names the base that a selection gives: another version of a package gives
// another one, and so does another choice of what is taken from them.
func (s *selection) key() string {
	sum := sha256.Sum256(fmt.Append(nil, s.files, programs, loaded, modules))
	return fmt.Sprintf("%x", sum[:8])
}

// unpack downloads the packages and unpacks them into dir, on top of each other.
func (s *selection) unpack(ctx context.Context, dir string) error {
	debs, err := os.MkdirTemp(dir, "debs-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(debs)
	if err := command(ctx, debs, "apt-get", append([]string{"download", "-q"}, s.packages...)...); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(debs, "*.deb"))
	if err != nil {
		return err
	}
	for _, file := range files {
		if err := command(ctx, "", "dpkg-deb", "--extract", file, dir); err != nil {
			return err
		}
	}
	return nil
}
