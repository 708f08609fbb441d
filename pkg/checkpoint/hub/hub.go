// Package hub brings models from the Hugging Face hub into the local cache. It is apart from package
// checkpoint since it brings an HTTP client with it, which doubles the time to link a notebook's cell.
//
// The listing of a repository and the cache's layout, which Python's huggingface_hub shares, are those
// of the library github.com/gomlx/go-huggingface; the transfer is ours, since the library's can't be
// resumed and reports its progress on standard output only.
package hub

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	hf "github.com/gomlx/go-huggingface/hub"

	"forwardpass/pkg/checkpoint"
)

// Options says where models come from and go to. The zero value takes the environment's settings
// (HF_ENDPOINT, HF_TOKEN, HF_HUB_CACHE, HF_HOME, HF_HUB_OFFLINE), as the hub's Python library does.
type Options struct {
	CacheDir string   // shared with the Python library, same layout
	Endpoint string   // the hub's address
	Token    string   // of an account, for models that ask for one
	Offline  bool     // use the cache only
	Files    []string // patterns of path.Match; nil is the configuration, tokenizer and safetensors weights
	// Check, where it is set, sees the directory of the model when config.json is there, before any other file is fetched. Its
	// error ends the Fetch, and an older copy of the revision stays the one in use.
	Check func(dir string) error
	// Patience is how long a transfer may bring no byte before it is begun anew; 0 is a minute.
	Patience time.Duration
	// Progress is called some times a second, by one goroutine at a time.
	Progress func(Progress)
}

// Progress is how far a download is. Bytes count over all files of one Fetch, what was there before included.
type Progress struct {
	File        string // the file that got the latest bytes
	Done, Total int64
}

const configName = "config.json"

// defaultFiles is what checkpoint.Open and the tokenizers read. Other copies of the weights that a repository may
// hold (pytorch_model.bin, consolidated.safetensors, onnx/) are left out.
var defaultFiles = []string{"*.json", "model*.safetensors", "*.model", "*.txt", "*.tiktoken", "*.jinja"}

// Fetch brings a model from the hub into the local cache and returns its directory, which checkpoint.Open reads.
// repo is "owner/name", revision a branch, a tag or a commit ("" is main). Files that are there already
// are not fetched again, an interrupted download goes on where it stopped, and every file is checked
// against the hub's hash. Without a network, or with Offline, the copy in the cache is used.
func Fetch(ctx context.Context, repo, revision string, opts Options) (dir string, err error) {
	opts = opts.withEnvironment()
	if revision == "" {
		revision = "main"
	}
	if !repoName.MatchString(repo) || strings.Contains(repo, "..") || !filepath.IsLocal(revision) {
		return "", fmt.Errorf("hub: want a repository like owner/name and a revision, got %q, %q", repo, revision)
	}
	cache := repoCache{
		dir:  filepath.Join(opts.CacheDir, "models--"+strings.ReplaceAll(repo, "/", "--")),
		repo: repo, revision: revision,
	}
	if opts.Offline {
		return cache.lookUp(opts.Files)
	}
	list, err := listRepo(ctx, repo, revision, opts)
	if netErr := (*url.Error)(nil); errors.As(err, &netErr) && ctx.Err() == nil {
		if dir, cacheErr := cache.lookUp(opts.Files); cacheErr == nil {
			return dir, nil
		}
	}
	if err != nil {
		return "", fmt.Errorf("hub: %s: %w", repo, err)
	}
	if err := cache.bring(ctx, list, opts); err != nil {
		return "", fmt.Errorf("hub: %s: %w", repo, err)
	}
	return cache.snapshot(list.commit), nil
}

var (
	repoName = regexp.MustCompile(`^[\w.-]+(/[\w.-]+)?$`)
	hexHash  = regexp.MustCompile(`^[0-9a-f]{40,64}$`)
)

// withEnvironment fills in what is not set.
func (o Options) withEnvironment() Options {
	home := os.Getenv("HF_HOME")
	switch {
	case o.CacheDir != "":
	case os.Getenv("HF_HUB_CACHE") != "":
		o.CacheDir = os.Getenv("HF_HUB_CACHE")
	case home != "":
		o.CacheDir = filepath.Join(home, "hub")
	default:
		o.CacheDir = hf.DefaultCacheDir()
	}
	if o.Patience == 0 {
		o.Patience = time.Minute
	}
	if o.Token == "" {
		o.Token = os.Getenv("HF_TOKEN")
	}
	switch strings.ToLower(os.Getenv("HF_HUB_OFFLINE")) {
	case "1", "on", "yes", "true":
		o.Offline = true
	}
	return o
}

// repoList is what the hub says about one revision.
type repoList struct {
	commit string
	files  []remoteFile
}

type remoteFile struct {
	name, url string
	size      int64
	// hash names the blob in the cache: the SHA-256 of a large file, else git's SHA-1 of a blob.
	hash string
}

// listRepo asks the hub for the commit and the files of it that are wanted.
func listRepo(ctx context.Context, repo, revision string, opts Options) (*repoList, error) {
	r := hf.New(repo).WithRevision(revision).WithAuth(opts.Token).WithCacheDir(opts.CacheDir)
	r.Verbosity = 0
	if opts.Endpoint != "" {
		r = r.WithEndpoint(strings.TrimSuffix(opts.Endpoint, "/"))
	}
	answer := make(chan error, 1)
	go func() { // the library takes no context here
		_, err := r.FileURL(configName) // asks for the newest commit of the revision
		answer <- err
	}()
	select {
	case err := <-answer:
		if err != nil {
			return nil, err
		}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	list := &repoList{commit: r.Info().CommitHash}
	if !hexHash.MatchString(list.commit) {
		return nil, fmt.Errorf("the hub names no commit for revision %s", revision)
	}
	var all []string
	for f, err := range r.IterFileInfos() {
		if err != nil {
			return nil, err
		}
		all = append(all, f.Name)
		if wanted, err := matchesAny(opts.wanted(), f.Name); err != nil {
			return nil, err
		} else if !wanted {
			continue
		}
		hash, size := f.BlobID, f.Size
		if f.LFS != nil {
			hash, size = f.LFS.SHA256, f.LFS.Size
		}
		if !filepath.IsLocal(f.Name) || !hexHash.MatchString(hash) {
			return nil, fmt.Errorf("the hub lists %q with hash %q: not a name and a hash", f.Name, hash)
		}
		address, err := r.FileURL(f.Name)
		if err != nil {
			return nil, err
		}
		list.files = append(list.files, remoteFile{name: f.Name, url: address, size: size, hash: hash})
	}
	if len(list.files) == 0 {
		return nil, fmt.Errorf("no file matches %v; the repository holds %v", opts.wanted(), all)
	}
	return list, nil
}

func (o Options) wanted() []string {
	if o.Files == nil {
		return defaultFiles
	}
	return o.Files
}

func matchesAny(patterns []string, name string) (bool, error) {
	for _, p := range patterns {
		if ok, err := path.Match(p, name); ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}

// repoCache is the directory of one repository in the cache:
//
//	refs/main                     holds a commit
//	snapshots/<commit>/<file>     is a link to
//	blobs/<hash>
type repoCache struct{ dir, repo, revision string }

func (c repoCache) snapshot(commit string) string { return filepath.Join(c.dir, "snapshots", commit) }
func (c repoCache) ref() string                   { return filepath.Join(c.dir, "refs", c.revision) }

// lookUp finds a snapshot that was fetched before and is whole.
func (c repoCache) lookUp(patterns []string) (string, error) {
	commit := c.revision
	if text, err := os.ReadFile(c.ref()); err == nil {
		commit = strings.TrimSpace(string(text))
	}
	dir := c.snapshot(commit)
	if !hexHash.MatchString(commit) || sizeOf(dir) < 0 {
		return "", fmt.Errorf("hub: %s at %s is not in the cache %s, and the hub is not asked or can't be reached", c.repo, c.revision, c.dir)
	}
	for _, p := range patterns {
		if found, err := filepath.Glob(filepath.Join(dir, filepath.FromSlash(p))); err != nil || len(found) == 0 {
			return "", fmt.Errorf("hub: %s has no file %s; fetch it with a network", dir, p)
		}
	}
	if patterns != nil {
		return dir, nil
	}
	// The links appear one by one, so an interrupted fetch may have left some out: checkpoint.Open knows what is needed.
	whole, err := checkpoint.Open(dir)
	if err != nil {
		return "", fmt.Errorf("hub: the copy in the cache is not whole: %w", err)
	}
	return dir, whole.Close()
}

// bring fetches the files that are missing, four at a time, and links them into the snapshot. Only when all are there does the
// revision stand for it.
func (c repoCache) bring(ctx context.Context, list *repoList, opts Options) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	meter := newMeter(list.files, opts.Progress)
	if opts.Check != nil {
		at := slices.IndexFunc(list.files, func(f remoteFile) bool { return f.name == configName })
		if at < 0 {
			return fmt.Errorf("there is no %s among its files", configName)
		}
		if err := c.bringFile(ctx, list.commit, list.files[at], opts, meter); err != nil {
			return fmt.Errorf("%s: %w", configName, err)
		}
		if err := opts.Check(c.snapshot(list.commit)); err != nil {
			return err
		}
	}
	var work sync.WaitGroup
	slots := make(chan struct{}, 4)
	for _, f := range list.files {
		work.Go(func() {
			select {
			case slots <- struct{}{}:
				defer func() { <-slots }()
			case <-ctx.Done():
				return
			}
			if err := c.bringFile(ctx, list.commit, f, opts, meter); err != nil {
				cancel(fmt.Errorf("%s: %w", f.name, err)) // the first error stops the others
			}
		})
	}
	work.Wait()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	meter.report("", true)
	if hexHash.MatchString(c.revision) {
		return nil // a commit needs no ref
	}
	if err := os.MkdirAll(filepath.Dir(c.ref()), 0o755); err != nil {
		return err
	}
	return os.WriteFile(c.ref(), []byte(list.commit), 0o644)
}

// meter adds up what the transfers report.
type meter struct {
	mu       sync.Mutex
	done     map[string]int64 // by file
	total    int64
	last     time.Time
	file     string
	callback func(Progress)
}

func newMeter(files []remoteFile, callback func(Progress)) *meter {
	m := &meter{done: map[string]int64{}, callback: callback}
	for _, f := range files {
		m.total += f.size
	}
	return m
}

// set records that n bytes of a file are there.
func (m *meter) set(file string, n int64) {
	m.mu.Lock()
	m.done[file] = n
	m.mu.Unlock()
	m.report(file, false)
}

func (m *meter) report(file string, always bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if file != "" {
		m.file = file
	}
	if m.callback == nil || !always && time.Since(m.last) < 100*time.Millisecond {
		return
	}
	m.last = time.Now()
	p := Progress{File: m.file, Total: m.total}
	for _, n := range m.done {
		p.Done += n
	}
	m.callback(p)
}
