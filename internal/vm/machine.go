package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
)

type machine struct {
	kernel, initrd string
	accel          string
}

// run runs the guest until it powers off. The parameter console gets the output of the
// guest's serial port.
func (m *machine) run(ctx context.Context, console io.Writer) error {
	cmd := exec.CommandContext(ctx, "qemu-system-x86_64",
		// An emulated processor translates addresses faster through four levels of page
		// tables than through five.
		"-accel", m.accel, "-cpu", "max,la57=off", "-smp", "2", "-m", "1024", "-nic", "none",
		"-display", "none", "-monitor", "none", "-serial", "stdio",
		"-no-reboot", // exit when the guest tries to reboot
		"-kernel", m.kernel, "-initrd", m.initrd,
		// Without hardware virtualization, the kernel uses the TSC as its clock only with
		// tsc=reliable. Reading another clock takes longer than sending a message.
		// The rest saves time: no code against attacks on real processors, no clearing of new
		// memory, and short waits when the kernel removes devices and connections.
		"-append", "console=ttyS0 quiet oops=panic panic=-1 tsc=reliable "+
			"mitigations=off init_on_alloc=0 rcupdate.rcu_expedited=1",
	)
	cmd.Stdout, cmd.Stderr = console, os.Stderr
	err := cmd.Run()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("qemu: %w", err)
	}
	return nil
}
