// A long run travels as base64 of gzip (viz/payload.py); a short one is JSON as it is.

function isPacked(payload) {
  return !payload.startsWith("{");
}

async function unpack(packed) {
  const bytes = Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}
