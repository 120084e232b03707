package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
)

// descriptors checks how many descriptors a process may have: a local connection takes one.
func descriptors(h *Host, f *Finding) error {
	const enough = 8192 // reactor.Config.MaxConns of one loop, by default
	limit, err := h.softLimit("Max open files")
	if err != nil {
		return err
	}
	if f.Found = strconv.FormatInt(limit, 10); limit < 0 {
		f.Found = "unlimited"
	}
	if limit >= 0 && limit < enough {
		f.set(Note, f.Found, "a connection to a process of this host takes a descriptor in each of the two, so about as many are possible",
			"ulimit -n 65536; for a service LimitNOFILE=65536 (systemd) or --ulimit nofile=65536 (docker)")
	}
	return nil
}

// mappings checks how many mappings a process may have: each segment that two loops share, and
// each region, is one.
func mappings(h *Host, f *Finding) error {
	const usual = 65530 // the default of Linux
	limit, err := h.number("/proc/sys/vm/max_map_count")
	if err != nil {
		return err
	}
	f.Found = fmt.Sprintf("max_map_count is %d", limit)
	if limit < usual {
		f.set(Problem, f.Found, "connections to processes of this host are refused when the mappings are used up",
			fmt.Sprintf("sysctl vm.max_map_count=%d or more", usual))
	}
	return nil
}

// Files of limits, in version 2 and in version 1 of cgroups(7).
const (
	cpuMax    = "/sys/fs/cgroup/cpu.max" // "quota period" or "max period", in µs
	cpuQuota  = "/sys/fs/cgroup/cpu/cpu.cfs_quota_us"
	cpuPeriod = "/sys/fs/cgroup/cpu/cpu.cfs_period_us"
	memoryMax = "/sys/fs/cgroup/memory.max"
)

// quota returns how many processors a container may use at once, or 0 if there is no limit.
func (h *Host) quota() (float64, error) {
	text, err := h.text(cpuMax)
	if os.IsNotExist(err) {
		quota, err := h.text(cpuQuota)
		if os.IsNotExist(err) {
			return 0, nil
		}
		period, err2 := h.text(cpuPeriod)
		if err = cmp.Or(err, err2); err != nil || quota == "-1" {
			return 0, err
		}
		text = quota + " " + period
	} else if err != nil {
		return 0, err
	}
	fields := strings.Fields(text)
	if len(fields) == 0 || fields[0] == "max" {
		return 0, nil
	}
	var quota, period float64
	if _, err := fmt.Sscan(text, &quota, &period); err != nil || period <= 0 {
		return 0, fmt.Errorf("%s: %q is no quota and period", h.path(cpuMax), text)
	}
	return quota / period, nil
}

// containerLimits checks the limits of the container, if this is one.
func containerLimits(h *Host, f *Finding) error {
	cpus, err := h.quota()
	if err != nil {
		return err
	}
	memory, err := h.text(memoryMax)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	var list []string
	if cpus > 0 {
		list = append(list, fmt.Sprintf("%.2g processors", cpus))
	}
	if n, err := strconv.ParseInt(memory, 10, 64); err == nil {
		list = append(list, bytesText(n)+" of memory")
	}
	users, err := h.text("/proc/self/uid_map")
	if err != nil {
		return err
	}
	if own := strings.Fields(users); len(own) == 3 && own[2] != "4294967295" {
		list = append(list, "users of its own")
	}
	if f.Found = strings.Join(list, ", "); f.Found == "" {
		f.Found = "none"
		return nil
	}
	f.set(Note, f.Found, "a quota stops all loops for the rest of a period; slabs and segments count as memory, and are not in GOMEMLIMIT; "+
		"processes of other user namespaces are refused on the local path",
		"for loops that never sleep give whole processors (cpuset) and no quota; soft.Config.AllowedUsers admits other users")
	return nil
}

// online returns the processors that the host has (Documentation/admin-guide/cputopology.rst
// of Linux), as text too.
func (h *Host) online() ([]int, string, error) {
	text, err := h.text("/sys/devices/system/cpu/online")
	if err != nil {
		return nil, "", err
	}
	list, err := ParseList(text)
	return list, text, err
}

// processors checks that each loop has a processor of its own, and that the host has it.
func processors(h *Host, f *Finding) error {
	list, text, err := h.online()
	if err != nil {
		return err
	}
	f.Found = "online: " + text
	var wrong []string
	for i, cpu := range h.CPUs {
		if !slices.Contains(list, cpu) {
			wrong = append(wrong, fmt.Sprintf("no processor %d", cpu))
		} else if slices.Contains(h.CPUs[:i], cpu) {
			wrong = append(wrong, fmt.Sprintf("two busy loops on processor %d", cpu))
		}
	}
	slices.Sort(wrong)
	if wrong = slices.Compact(wrong); len(wrong) > 0 {
		f.set(Problem, strings.Join(wrong[:min(8, len(wrong))], ", ")+more(len(wrong)-8),
			"package reactor refuses a processor that the host does not have, and two loops that never sleep on one",
			"give each loop its own processor of "+text)
	}
	return nil
}

// loopCPUs returns those processors of the loops that the host has: all of them if it does not
// say which it has. An error means that there is none to check.
func (h *Host) loopCPUs() ([]int, error) {
	list, _, err := h.online()
	if err != nil {
		return h.CPUs, nil
	}
	known := slices.DeleteFunc(slices.Clone(h.CPUs), func(cpu int) bool { return !slices.Contains(list, cpu) })
	slices.Sort(known)
	if known = slices.Compact(known); len(known) == 0 && len(h.CPUs) > 0 {
		return nil, errors.New("the host has none of the processors of the loops")
	}
	return known, nil
}

// maxProcs compares GOMAXPROCS with the loops and the quota.
func maxProcs(h *Host, f *Finding) error {
	f.Found = strconv.Itoa(h.GOMAXPROCS)
	if need := len(h.CPUs) + 2; len(h.CPUs) > 0 && h.GOMAXPROCS < need {
		f.set(Problem, f.Found, fmt.Sprintf("%d loops that never sleep leave the rest of the program too few threads", len(h.CPUs)),
			fmt.Sprintf("GOMAXPROCS=%d or more: the busy loops and two", need))
		return nil
	}
	cpus, err := h.quota()
	if err != nil {
		return err
	}
	if cpus > 0 && float64(h.GOMAXPROCS) > cpus+1 {
		f.set(Problem, f.Found, fmt.Sprintf("the container may use %.2g processors at once, so the threads stop each other in every period", cpus),
			fmt.Sprintf("GOMAXPROCS=%d", max(1, int(cpus))))
	}
	return nil
}

// governor checks whether the frequency of the processors is fixed.
func governor(h *Host, f *Finding) error {
	counts := map[string][]string{}
	for _, name := range h.glob("/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor") {
		text, err := h.text(name)
		if err != nil {
			return err
		}
		counts[text] = append(counts[text], strings.Split(name, "/")[5])
	}
	if f.Found = "the system does not show one, as in most virtual machines"; len(counts) == 0 {
		return nil
	}
	var list []string
	for name, cpus := range counts {
		list = append(list, fmt.Sprintf("%s on %d processors", name, len(cpus)))
	}
	slices.Sort(list)
	f.Found = strings.Join(list, ", ")
	if len(counts["performance"]) == 0 || len(counts) > 1 {
		f.set(Note, f.Found, "a processor that was idle is slow at first, so that single messages take longer",
			"cpupower frequency-set -g performance")
	}
	return nil
}

// isolated checks whether the processors of the loops are isolated from the scheduler.
func isolated(h *Host, f *Finding) error {
	text, err := h.text("/sys/devices/system/cpu/isolated")
	if err != nil {
		return err
	}
	list, err := ParseList(text)
	if err != nil {
		return err
	}
	if f.Found = "isolated: " + text; text == "" {
		f.Found = "none"
	}
	cpus, err := h.loopCPUs()
	if err != nil {
		return err
	}
	var shared []int
	for _, cpu := range cpus {
		if !slices.Contains(list, cpu) {
			shared = append(shared, cpu)
		}
	}
	if len(shared) > 0 {
		f.set(Note, fmt.Sprintf("processors %v of the loops are not isolated (isolated: %q)", shared, text),
			"other threads run there at times, and stop a loop for milliseconds",
			"boot with isolcpus= and nohz_full= for these processors, or give the program a cpuset of its own")
	}
	return nil
}

// interrupts checks whether devices interrupt the processors of the loops.
func interrupts(h *Host, f *Finding) error {
	if f.Found = "no loop is pinned; -cpus LIST checks its processors"; len(h.CPUs) == 0 {
		return nil
	}
	own, err := h.loopCPUs()
	if err != nil {
		return err
	}
	var found []string
	for _, name := range h.glob("/proc/irq/[0-9]*/effective_affinity_list") {
		text, err := h.text(name)
		if err != nil {
			continue // An interrupt may go away.
		}
		cpus, err := ParseList(text)
		if err != nil {
			return fmt.Errorf("%s: %w", h.path(name), err)
		}
		for _, cpu := range cpus {
			if slices.Contains(own, cpu) && len(cpus) < 64 {
				found = append(found, fmt.Sprintf("%s on %d", path.Base(path.Dir(name)), cpu))
			}
		}
	}
	if f.Found = "none on the processors of the loops"; len(found) > 0 {
		f.set(Note, "interrupts "+strings.Join(found[:min(8, len(found))], ", ")+more(len(found)-8),
			"each interrupt stops the loop for microseconds",
			"move them away: echo CPU > /proc/irq/N/smp_affinity_list, and stop irqbalance or ban these processors in it")
	}
	return nil
}

func more(n int) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf(" and %d more", n)
}

// hugePages checks whether there are reserved huge pages, for Config.HugePages.
func hugePages(h *Host, f *Finding) error {
	text, err := h.text("/proc/meminfo")
	if err != nil {
		return err
	}
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, "HugePages_Free:")
		if !ok {
			continue
		}
		n, err := strconv.Atoi(strings.TrimSpace(rest))
		if err != nil {
			return fmt.Errorf("%s: %w", h.path("/proc/meminfo"), err)
		}
		if f.Found = fmt.Sprintf("%d free", n); n == 0 {
			f.set(Note, "none are free", "memory that asks for huge pages gets small ones, with more misses of the TLB",
				"sysctl vm.nr_hugepages=N, N times 2 MiB")
		}
		return nil
	}
	return fmt.Errorf("%s has no line HugePages_Free", h.path("/proc/meminfo"))
}
