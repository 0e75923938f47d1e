package main

import (
	"bufio"
	"context"
	"io"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestOverload puts ten times as many callers on a server as it takes, and then everything that attackers do to it. Whoever is
// refused is told so properly, health answers, memory stays within its bound, and afterwards all is well.
//
// Attackers run in processes of their own that get the processor only when nobody else wants it, as if they had machines of
// their own: what callers then feel of them is what the server does for them. With TASKSTORE_LONG there are 10,000 idle
// readers, each attack is also made alone, and latencies are printed.
func TestOverload(t *testing.T) {
	all := slices.Sorted(maps.Keys(attacks))
	t.Run("everything", func(t *testing.T) {
		o := startOverload(t)
		many := o.crowd(10*slots, lasting(time.Second, 4*time.Second))
		if many.other != nil {
			t.Errorf("ten times as many callers: %v", many.other)
		}
		t.Logf("ten times as many callers: %v", many)
		o.under(all)
	})
	if os.Getenv(envLong) == "" {
		return
	}
	// Large saves are the ones that the server takes in, and has the disk busy with.
	t.Run("everything but large saves", func(t *testing.T) {
		startOverload(t).under(slices.DeleteFunc(slices.Clone(all), func(kind string) bool { return kind == "large saves" }))
	})
	for _, kind := range all {
		t.Run(kind, func(t *testing.T) { startOverload(t).under([]string{kind}) })
	}
}

// slots is how many calls the server runs at once.
const slots = 32

// overload is a server with little room, so that it is overloaded soon.
type overload struct {
	t *testing.T
	*process
}

func startOverload(t *testing.T) *overload {
	p := newProcess(t)
	p.env = []string{"GOMEMLIMIT=1GiB"}
	p.start("--max-concurrent-calls", strconv.Itoa(slots), "--max-call-bytes", "64MiB", "--stream-buffer-bytes", "64MiB",
		"--max-message-bytes", "16MiB", "--stall-timeout", "5s")
	return &overload{t, p}
}

// under makes attacks on the server while callers call it.
func (o *overload) under(kinds []string) {
	const bound = (1024 + 256) * mib // what GOMEMLIMIT has the runtime aim at, and a quarter for when it is pressed
	d := lasting(time.Second, 4*time.Second)
	saves, gets := o.paced(d)
	full := o.crowd(slots, d)
	for name, r := range map[string]*outcome{"few saves": saves, "few gets": gets, "as many saves as are taken": full} {
		if r.refused > 0 || r.other != nil {
			o.t.Errorf("%s: %v, %v", name, r, r.other)
		}
	}

	var stops []func()
	for _, kind := range kinds {
		stops = append(stops, o.attack(kind))
	}
	ctx, cancel := context.WithCancel(o.t.Context())
	health := make(chan *outcome)
	go func() { health <- o.health(ctx) }()
	attackedSaves, attackedGets := o.paced(2 * d)
	many := o.crowd(10*slots, d)
	cancel()
	checks := <-health
	for _, stop := range stops {
		stop()
	}
	for name, r := range map[string]*outcome{"few saves": attackedSaves, "few gets": attackedGets, "ten times as many saves as are taken": many} {
		if r.other != nil || r.served() == 0 {
			o.t.Errorf("%s, under attack: %v, %v", name, r, r.other)
		}
	}
	if many.refused == 0 {
		o.t.Error("nobody was refused")
	}
	if checks.other != nil || checks.served() == 0 {
		o.t.Errorf("health: %v", checks.other)
	}

	ended := time.Now()
	for o.crowd(slots, 100*time.Millisecond).refused > 0 {
		if time.Since(ended) > time.Minute {
			o.t.Fatal("the server does not recover")
		}
	}
	recovered := time.Since(ended)
	peak := peakMemory(o.t, o.cmd.Process.Pid)
	if peak > bound {
		o.t.Errorf("the server took %d MiB, the bound is %d MiB", peak/mib, bound/mib)
	}
	o.t.Logf("few saves: normally %v, under attack %v", saves, attackedSaves)
	o.t.Logf("few gets: normally %v, under attack %v", gets, attackedGets)
	o.t.Logf("as many as are taken: normally %v; ten times as many under attack %v", full, many)
	o.t.Logf("health under attack: %v", checks)
	o.t.Logf("recovery %v, peak memory %d MiB of %d MiB", recovered.Round(time.Millisecond), peak/mib, bound/mib)
}

// attack starts an attack, and returns once it has begun what ends it.
func (o *overload) attack(kind string) (stop func()) {
	o.t.Helper()
	cmd := exec.Command(os.Args[0], kind, o.address, strconv.Itoa(attackers(kind)))
	cmd.Env = append(os.Environ(), envAttack+"=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		o.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		o.t.Fatal(err)
	}
	if err := startIdle(cmd); err != nil {
		o.t.Fatal(err)
	}
	o.t.Cleanup(func() { cmd.Process.Kill() })
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		o.t.Fatalf("the attack by %s does not begin: %v", kind, err)
	}
	return func() {
		in.Close()
		_, _ = io.Copy(io.Discard, out)
		if err := cmd.Wait(); err != nil {
			o.t.Errorf("the attack by %s: %v", kind, err)
		}
	}
}

func attackers(kind string) int {
	switch kind {
	case "idle readers":
		if os.Getenv(envLong) != "" {
			return 10_000
		}
		return 500
	case "stalled readers":
		return 40
	default:
		return 8
	}
}

// startIdle starts a program that runs only when the processor has nothing else to do.
func startIdle(cmd *exec.Cmd) error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine, its program has the policy from it
		err := unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_IDLE}, 0)
		if err == nil {
			err = cmd.Start()
		}
		started <- err
	}()
	return <-started
}

// peakMemory is the most memory that a process ever had resident, in bytes.
func peakMemory(t *testing.T, pid int) int {
	t.Helper()
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), "VmHWM:")
	kib, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return kib << 10
}
