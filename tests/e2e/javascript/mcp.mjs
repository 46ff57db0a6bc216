// Calls tools of an MCP server in turn, and prints the tools and each result as JSON.
// node mcp.mjs '{"url": …, "token": … or null, "calls": [[tool, arguments], …]}'
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const { url, token, calls } = JSON.parse(process.argv[2]);
const client = new Client({ name: "tests", version: "1" });
const headers = token ? { Authorization: `Bearer ${token}` } : {};
await client.connect(
  new StreamableHTTPClientTransport(new URL(`${url}/mcp`), { requestInit: { headers } }),
);
const { tools } = await client.listTools();
const results = [];
let last;
for (const [name, given] of calls) {
  // The text RUN in an argument is the run of the call before.
  const text = JSON.stringify(given).replaceAll('"RUN"', JSON.stringify(last ?? ""));
  try {
    const result = await client.callTool({ name, arguments: JSON.parse(text) });
    last = result.structuredContent?.run ?? last;
    results.push(result);
  } catch (error) {
    results.push({ thrown: String(error) });
  }
}
console.log(JSON.stringify({ tools, results }));
await client.close();
