package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// A Debian package without files. It depends on the package with the current kernel.
const kernelPackage = "linux-image-amd64"

// Debian packages with programs for the guest.
var programPackages = []string{
	"busybox-static", "e2fsprogs", "fio", "ibverbs-providers", "ibverbs-utils", "iproute2", "nvme-cli", "perftest",
	"rdmacm-utils", "util-linux",
}

// A selection is the set of packages for a guest.
type selection struct {
	packages []string
	// Output of apt-get download --print-uris: URL, file name, size and checksum of each
	// package.
	files string
}

// selectPackages chooses packages and versions from the system's package lists.
func selectPackages(ctx context.Context) (*selection, error) {
	s, err := readLists(ctx)
	if err == nil || os.Geteuid() != 0 {
		return s, err
	}
	// A new system may have no package lists.
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

// packagesNamed returns the package names in the output of "apt-cache depends". They are
// the lines that are not indented. Names in angle brackets are virtual packages, which
// have no file.
func packagesNamed(listing string) (packages []string) {
	for line := range strings.Lines(listing) {
		if name := strings.TrimRight(line, "\n"); !strings.HasPrefix(name, " ") && !strings.HasPrefix(name, "<") {
			packages = append(packages, name)
		}
	}
	return packages
}

// dependencyNamed returns the first dependency in the output of "apt-cache depends".
func dependencyNamed(listing string) string {
	_, rest, _ := strings.Cut(listing, "Depends: ")
	name, _, _ := strings.Cut(rest, "\n")
	return name
}

// key returns the name of the cache directory for the base. The name changes with the
// packages' versions and with the files that this program copies.
func (s *selection) key() string {
	sum := sha256.Sum256(fmt.Append(nil, s.files, packagedPrograms, runtimeFiles, modules))
	return fmt.Sprintf("%x", sum[:8])
}

// unpack downloads and unpacks all packages into dir.
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
