// An OpenID Connect issuer by npm's oidc-provider, on a free loopback port. It prints its address as a line of JSON;
// each line on its standard input replaces its signing key; at the end of the input it ends.
import { generateKeyPairSync, randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { createInterface } from 'node:readline';
import { Provider, errors } from 'oidc-provider';

console.info = console.warn = () => {}; // its advice would stand among our lines
const [redirectUri, ...resources] = process.argv.slice(2);
const cookies = [randomUUID()];
let provider;

function newKey() {
    const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    return { ...privateKey.export({ format: 'jwk' }), kid: randomUUID(), use: 'sig', alg: 'ES256' };
}

function replaceKey(issuer) {
    provider = new Provider(issuer, {
        jwks: { keys: [newKey()] },
        cookies: { keys: cookies },
        clients: [
            { client_id: 'machine', client_secret: 'machine-secret', grant_types: ['client_credentials'],
              redirect_uris: [], response_types: [], id_token_signed_response_alg: 'ES256' },
            { client_id: 'app', token_endpoint_auth_method: 'none', application_type: 'native',
              grant_types: ['authorization_code', 'refresh_token'], response_types: ['code'],
              redirect_uris: [redirectUri], id_token_signed_response_alg: 'ES256' },
        ],
        scopes: ['openid', 'offline_access', 'execute', 'files', 'approve', 'admin'],
        features: {
            devInteractions: { enabled: true },
            clientCredentials: { enabled: true },
            resourceIndicators: {
                enabled: true,
                useGrantedResource: () => true,
                getResourceServerInfo: (_ctx, resource) => {
                    if (!resources.includes(resource)) throw new errors.InvalidTarget();
                    return { scope: 'execute files approve admin', audience: resource, accessTokenFormat: 'jwt',
                             jwt: { sign: { alg: 'ES256' } } };
                },
            },
        },
        pkce: { required: () => true },
        extraTokenClaims: (ctx, token) =>
            token.kind === 'AccessToken'
                ? { org: 'acme', auth_time: ctx.oidc.entities.AuthorizationCode?.authTime }
                : { org: 'acme' },
        findAccount: (_ctx, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
    });
}

const server = createServer((request, response) => provider.callback()(request, response));
server.listen(0, '127.0.0.1', () => {
    const issuer = `http://127.0.0.1:${server.address().port}`;
    replaceKey(issuer);
    console.log(JSON.stringify({ issuer }));
    createInterface({ input: process.stdin })
        .on('line', () => {
            replaceKey(issuer);
            console.log(JSON.stringify({ replaced: true }));
        })
        .on('close', () => process.exit(0));
});
