package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
)

// process is a child that serves (see child). It may be asked by several goroutines at once.
type process struct {
	address string

	cmd   *exec.Cmd
	input io.WriteCloser

	mu      sync.Mutex // an answer belongs to the question before it
	answers *bufio.Reader
}

// start starts a child and returns when it has said where it serves.
func start(ctx context.Context, config *childConfig) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(self, "bench", "--child")}
	p.cmd.Stderr = os.Stderr
	if p.input, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	output, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.answers = bufio.NewReader(output)
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	// Seeding may take minutes; who gives up takes the child along.
	stop := context.AfterFunc(ctx, func() { p.cmd.Process.Kill() })
	defer stop()
	first, err := p.exchange(config)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting a server: %w", err), p.kill())
	}
	p.address = first.Address
	return p, nil
}

func (p *process) ask(q question) (answer, error) { return p.exchange(q) }

func (p *process) exchange(line any) (answer, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := json.NewEncoder(p.input).Encode(line); err != nil {
		return answer{}, err
	}
	var a answer
	if err := readLine(p.answers, &a); err != nil {
		return answer{}, err
	}
	if a.Error != "" {
		return answer{}, errors.New(a.Error)
	}
	return a, nil
}

// stop lets the child drain and end.
func (p *process) stop() error {
	return errors.Join(p.input.Close(), p.cmd.Wait())
}

// kill ends the child as a crash would.
func (p *process) kill() error {
	err := p.cmd.Process.Kill()
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	p.input.Close()
	p.cmd.Wait() // says that it was killed
	return err
}

// count reads the counters of the child.
func (p *process) count(context.Context) (counters, error) {
	a, err := p.ask(question{Do: "stats"})
	if err != nil {
		return nil, err
	}
	c := counters{Allocs: float64(a.Mallocs), AllocBytes: float64(a.AllocBytes), Written: float64(a.Written)}
	if a.CPU > 0 {
		c[CPU] = micros(a.CPU)
	}
	return c, nil
}
