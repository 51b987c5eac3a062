package warehouse

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"cvs/collect/artifact"
	"cvs/warehouse/ingest"
)

// A Source is a run on its way into the warehouse, with what was made of it so
// far, so that no file is read twice. Sources are made and prepared on any
// goroutine, each on one at a time.
type Source struct {
	Run *artifact.Run

	doc    *ingest.Document // what the one file of a loose run holds; nil: not read yet
	plain  bool             // a loose file of which nobody stated anything
	filed  bool             // reading its file again makes it again
	digest string
	batch  *batch
	size   int // of files that were let go
}

// NewSource is a source of a run that may still be changed.
func NewSource(run *artifact.Run) *Source { return &Source{Run: run} }

// Document is what was read of the run's one file; nil if it was not read yet.
func (s *Source) Document() *ingest.Document { return s.doc }

// Stated says that somebody changed the run: it is no longer told by its file
// alone.
func (s *Source) Stated() { s.plain, s.filed = false, false }

// Prepare does everything that needs no database; the run must not change any
// more. Calling it is optional and saves that time in [DB.LoadSources].
func (s *Source) Prepare() { s.prepare(nil) }

func (s *Source) prepare(book *shapeBook) {
	if s.batch == nil {
		s.batch = build(s, s.contentDigest(), book)
	}
}

// Size is the length of the raw files of its results, bytes.
func (s *Source) Size() int {
	n := s.size
	for _, r := range s.Run.Results {
		n += len(r.Data)
	}
	for _, r := range s.Run.Accuracy {
		n += len(r.Data)
	}
	return n
}

// Packed says that the source was packed: its file would have to be read again.
func (s *Source) Packed() bool { return s.filed && s.batch != nil && s.batch.run == nil }

func runsOf(sources []*Source) []*artifact.Run {
	runs := make([]*artifact.Run, len(sources))
	for i, s := range sources {
		runs[i] = s.Run
	}
	return runs
}

// contentDigest identifies everything of the run that is stored.
func (s *Source) contentDigest() string {
	switch {
	case s.digest != "":
	case s.plain && len(s.Run.Results)+len(s.Run.Accuracy) == 1:
		r := append(s.Run.Results, s.Run.Accuracy...)[0]
		s.digest = plainDigest(r.SHA256)
	default:
		s.digest = contentDigest(s.Run)
	}
	return s.digest
}

// plainDigest is the digest of a loose file of which nobody stated anything: its
// bytes decide everything. A copy under another name is the same result, and the
// name it was found under first stays.
func plainDigest(sha string) string {
	s := sha256.Sum256(fmt.Appendf(nil, "%d loose %s", loaderVersion, sha))
	return hex.EncodeToString(s[:])
}

// Inventory is what a warehouse held when it was asked, by run id.
type Inventory map[string]string

// Inventory lists what is stored, once for many files.
func (w *DB) Inventory(ctx context.Context) (Inventory, error) {
	rows, err := query(ctx, w.db, "SELECT run_id, content_sha256 FROM run", func(r *[2]string) []any { return []any{&r[0], &r[1]} })
	if err != nil {
		return nil, fmt.Errorf("read runs: %w", err)
	}
	v := make(Inventory, len(rows))
	for _, r := range rows {
		v[r[0]] = r[1]
	}
	return v, nil
}

// Has says under which id a loose file is stored already, by its bytes, whatever
// its name and its time on disk: such a file need not even be parsed.
func (v Inventory) Has(data []byte) (runID string, ok bool) {
	if len(v) == 0 {
		return "", false
	}
	s := sha256.Sum256(data)
	sha := hex.EncodeToString(s[:])
	runID = looseID(sha)
	return runID, v[runID] == plainDigest(sha)
}

func looseID(sha string) string { return "loose-" + sha[:12] }
