package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// kernelPackage is a Debian package that has no files. It depends on the package that has
// the current kernel.
const kernelPackage = "linux-image-amd64"

// programPackages lists the packages with programs that run in the guest and are not part
// of this module.
var programPackages = []string{
	"busybox-static", "iproute2", "ibverbs-providers", "ibverbs-utils", "perftest", "rdmacm-utils", "util-linux",
}

// A selection is the set of packages from which a guest is made.
type selection struct {
	packages []string
	// Output of apt-get download --print-uris. It has the URL, the file name, the size
	// and the checksum of each package.
	files string
}

// selectPackages chooses packages and their versions from the package lists of the
// system.
func selectPackages(ctx context.Context) (*selection, error) {
	s, err := readLists(ctx)
	if err == nil || os.Geteuid() != 0 {
		return s, err
	}
	// On a new system there may be no package lists yet.
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

// packagesNamed returns the names of packages in the output of apt-cache depends. In this
// output, the name of a package is at the beginning of a line, and its dependencies are
// in indented lines after it. A name in angle brackets is a virtual package. There is no
// file for it, so packagesNamed leaves it out.
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

// key returns the name of the cache directory for the base that is made from the
// selection. The name is different if a package has another version, or if this program
// copies other files from the packages.
func (s *selection) key() string {
	sum := sha256.Sum256(fmt.Append(nil, s.files, packagedPrograms, runtimeFiles, modules))
	return fmt.Sprintf("%x", sum[:8])
}

// unpack downloads the packages and unpacks all of them into dir.
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
