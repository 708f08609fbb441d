// Command fetch brings a model from the Hugging Face hub. go run ./notebooks -model OWNER/NAME builds and starts it.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"forwardpass/pkg/checkpoint/hub"
	"forwardpass/pkg/model"
	"forwardpass/pkg/tokenize"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "fetch: want a folder for models and OWNER/NAME or OWNER/NAME@REVISION")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := fetch(ctx, os.Args[1], os.Args[2], func(line string) { fmt.Println(line) }); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// fetch brings a model to models/OWNER/NAME (with @REVISION, if one is given), where lesson.Open finds it. That is a link into
// models/.hub, a cache in the hub's own layout, and appears only when the model and its tokenizer can be opened. Whether the family
// is known is asked before any weights are fetched. Addresses and keys come from the environment (HF_ENDPOINT, HF_TOKEN).
func fetch(ctx context.Context, models, name string, say func(line string)) error {
	repo, revision, _ := strings.Cut(name, "@")
	if strings.ContainsAny(revision, `/\`) {
		return fmt.Errorf("the revision %q has a slash, which a model's name here can't have: give the commit that it stands for", revision)
	}
	path := filepath.Join(models, filepath.FromSlash(name))
	if info, err := os.Lstat(path); err == nil && info.Mode()&os.ModeSymlink == 0 {
		return fmt.Errorf("%s is there and was not fetched by this command: move it away to fetch %s, or use it as it is", path, name)
	}
	dir, err := hub.Fetch(ctx, repo, revision, hub.Options{
		CacheDir: filepath.Join(models, ".hub"),
		Check:    known,
		Progress: func(p hub.Progress) { say(fmt.Sprintf("%d of %d MB, %s", p.Done>>20, p.Total>>20, p.File)) },
	})
	if err != nil {
		return explain(ctx, err)
	}
	say("opening it")
	if err := opens(dir); err != nil {
		return err
	}
	return link(dir, path)
}

// known says whether the model in dir is of a family that this course has.
func known(dir string) error {
	text, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err != nil {
		return err
	}
	var c struct {
		ModelType string `json:"model_type"`
	}
	if err := json.Unmarshal(text, &c); err != nil {
		return fmt.Errorf("its config.json: %w", err)
	}
	if all := model.Families(); !slices.Contains(all, c.ModelType) {
		return fmt.Errorf("its model_type %q is not supported (supported: %s)", c.ModelType, strings.Join(all, ", "))
	}
	return nil
}

func opens(dir string) error {
	m, err := model.Open(dir)
	if err != nil {
		return err
	}
	_, err = tokenize.Open(dir)
	return errors.Join(err, m.Close())
}

// explain says what to do when the hub can't be reached.
func explain(ctx context.Context, err error) error {
	if unreached := (*url.Error)(nil); errors.As(err, &unreached) && ctx.Err() == nil {
		if at, e := url.Parse(unreached.URL); e == nil {
			return fmt.Errorf("the hub at %s can't be reached, and there is no copy here: check the network, the proxy settings or HF_ENDPOINT, then run the same command again", at.Host)
		}
	}
	return err
}

// link makes path a link to dir, relative, so that the repository may be moved.
func link(dir, path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	target, err := filepath.Rel(filepath.Dir(path), dir)
	if err != nil {
		return err
	}
	part := fmt.Sprintf("%s.%d", path, os.Getpid())
	if err := os.Symlink(target, part); err != nil {
		return err
	}
	defer os.Remove(part) // fails once the rename has happened
	return os.Rename(part, path)
}
