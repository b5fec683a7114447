"""What a run answers fits the requests of the providers' SDKs, and their objects fit what a run takes."""

from anthropic import AsyncAnthropic
from google import genai
from google.genai import types
from openai import AsyncOpenAI

from hooksdk import Session, Tool
from hooksdk.agent import Outcome, run_agent


def add(left: int, right: int) -> int:
    return left + right


DEFINITION = {"type": "function", "function": {"name": "subtract", "parameters": {"type": "object"}}}


async def chat(client: AsyncOpenAI, session: Session) -> None:
    async with session.run() as run:
        tools = run.format.tools(await run.resolve_tools([add, DEFINITION, Tool(name="other")]))
        messages = await run.prepare_messages()
        response = await client.chat.completions.create(model="any", messages=messages, tools=tools)
        await run.record(response)
        await run.record(response.choices[0].message, usage=response.usage)
        for call in response.choices[0].message.tool_calls or ():
            await run.call_tool(call)


async def responses(client: AsyncOpenAI, session: Session) -> None:
    async with session.run(format="openai-responses") as run:
        tools = run.format.tools(await run.resolve_tools([add]))
        response = await client.responses.create(model="any", input=await run.prepare_messages(), tools=tools)
        await run.record(response.output)
        for call in run.pending:
            await run.call_tool(call)


async def messages(client: AsyncAnthropic, session: Session) -> None:
    async with session.run(format="anthropic") as run:
        tools = run.format.tools(await run.resolve_tools([add]))
        message = await client.messages.create(
            model="any", max_tokens=100, messages=await run.prepare_messages(), tools=tools
        )
        await run.record(message)
        for block in message.content:
            if block.type == "tool_use":
                await run.judge(block)


async def contents(client: genai.Client, session: Session) -> None:
    async with session.run(format="gemini") as run:
        config = types.GenerateContentConfig(tools=run.format.tools(await run.resolve_tools([add])))
        answer = await client.aio.models.generate_content(  # pyright: ignore[reportUnknownMemberType]
            model="any", contents=await run.prepare_messages(), config=config
        )
        await run.record(answer)
        for call in answer.function_calls or ():
            await run.call_tool(call)


async def agent(session: Session) -> Outcome:
    return await run_agent(session, "openai:gpt-5", "hello", tools=[add, DEFINITION])
