package core

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/millstream-io/millstream/core/auth"
	"github.com/millstream-io/millstream/core/metadata"
	"github.com/millstream-io/millstream/core/vfs"
)

const (
	// maxKeySetBytes bounds a JWKS document.
	maxKeySetBytes = 1 << 20
	// keySetTimeout bounds the reading of one.
	keySetTimeout = 10 * time.Second
	// keySetRetry is how often a key that is not there makes the document be read again, at most.
	keySetRetry = 10 * time.Second
)

// keySets has the keys of the issuer of tokens, and reads them anew when they are old or when a
// token names one that is not there.
type keySets struct {
	// read gets the document.
	read func(ctx context.Context) ([]byte, error)
	// refresh is when the keys are old.
	refresh time.Duration

	mu struct {
		sync.Mutex
		keys *auth.KeySet
		// at is when keys were read, tried when that was last tried.
		at, tried time.Time
	}
}

// tokenRules makes the rules of OAUTHBEARER. Without keys, issuer or audience every token would do:
// the start then fails, as it does when the keys cannot be read.
func (b *Broker) tokenRules(
	ctx context.Context, image *metadata.Image,
) (*auth.TokenRules, error) {
	get := image.BrokerConfigValue
	rules := &auth.TokenRules{
		Issuer: get("sasl.oauthbearer.expected.issuer"), NameClaim: get("sasl.oauthbearer.sub.claim.name"),
		Skew: time.Duration(image.BrokerConfigInt("sasl.oauthbearer.clock.skew.seconds", 0)) * time.Second,
	}
	for audience := range strings.SplitSeq(get("sasl.oauthbearer.expected.audience"), ",") {
		if audience = strings.TrimSpace(audience); audience != "" {
			rules.Audience = append(rules.Audience, audience)
		}
	}
	var sets *keySets
	if where := get("sasl.oauthbearer.jwks.endpoint.url"); where != "" {
		read, err := keySetReader(b.opts.FS, where)
		if err != nil {
			return nil, err
		}
		refresh := image.BrokerConfigInt("sasl.oauthbearer.jwks.endpoint.refresh.ms", 0)
		sets = &keySets{read: read, refresh: time.Duration(refresh) * time.Millisecond}
		rules.Keys = sets.get
	}
	if err := rules.Validate(); err != nil {
		return nil, err
	}
	if err := sets.load(ctx); err != nil {
		return nil, err
	}
	return rules, nil
}

// keySetReader returns how a document is read: from a file, or over https, or from this machine.
func keySetReader(
	fs vfs.FS, where string,
) (func(context.Context) ([]byte, error), error) {
	u, err := url.Parse(where)
	if err != nil {
		return nil, fmt.Errorf("sasl.oauthbearer.jwks.endpoint.url: %w", err)
	}
	local := u.Hostname() == "localhost" || u.Hostname() == "127.0.0.1" || u.Hostname() == "::1"
	switch {
	case u.Scheme == "file" && u.Host == "":
		return func(context.Context) ([]byte, error) { return vfs.ReadFile(fs, u.Path) }, nil
	case u.Scheme != "https" && (u.Scheme != "http" || !local):
		return nil, fmt.Errorf("sasl.oauthbearer.jwks.endpoint.url: %q is neither https nor a file: "+
			"whoever is on the way could put keys of his own in", where)
	}
	client := &http.Client{
		Timeout: keySetTimeout,
		// A redirect could lead anywhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return func(ctx context.Context) ([]byte, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, where, nil)
		if err != nil {
			return nil, err
		}
		resp, err := client.Do(req)
		if err != nil {
			return nil, err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return nil, fmt.Errorf("%s answered %s", u.Host, resp.Status)
		}
		document, err := io.ReadAll(io.LimitReader(resp.Body, maxKeySetBytes+1))
		if len(document) > maxKeySetBytes {
			return nil, errors.New("the document is too large")
		}
		return document, err
	}, nil
}

// load reads the keys.
func (k *keySets) load(ctx context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.loadLocked(ctx)
}

// loadLocked reads the keys. The lock is held meanwhile: whoever waits for it needs them.
func (k *keySets) loadLocked(ctx context.Context) error {
	k.mu.tried = time.Now()
	ctx, cancel := context.WithTimeout(ctx, keySetTimeout)
	defer cancel()
	document, err := k.read(ctx)
	if err != nil {
		return fmt.Errorf("read the keys of OAUTHBEARER: %w", err)
	}
	keys, err := auth.ParseKeySet(document)
	if err != nil {
		return fmt.Errorf("read the keys of OAUTHBEARER: %w", err)
	}
	k.mu.keys, k.mu.at = keys, time.Now()
	return nil
}

// get returns the keys, read anew where that is due. When that fails the ones there still count.
func (k *keySets) get(id string) (*auth.KeySet, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	old := time.Since(k.mu.at) > k.refresh
	missing := id != "" && !k.mu.keys.Has(id)
	if (old || missing) && time.Since(k.mu.tried) > keySetRetry {
		if err := k.loadLocked(context.Background()); err != nil && k.mu.keys == nil {
			return nil, err
		}
	}
	return k.mu.keys, nil
}
